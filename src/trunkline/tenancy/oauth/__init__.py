"""Signing in to servers: an OAuth client of our own. Imported when somebody signs in, and not before."""
