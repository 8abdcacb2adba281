"""Raw bytes against both sides of HTTP; `make fuzz` tries them for long."""
