"""What servers say, looked at with distrust: what changed since it was agreed to, and what is meant to mislead."""
