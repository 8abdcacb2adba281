"""What happens to callers, and to the machine, when servers misbehave."""
