"""The admin API below `/api/v1`: what can be seen and changed of a running gateway, and its description."""
