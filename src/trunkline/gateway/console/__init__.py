"""The console: a page that shows what the gateway does and steers it, by the admin API alone."""
