"""What wraps the use of a tool: logging, confirmation, validation, a deadline, retries, and your own."""
