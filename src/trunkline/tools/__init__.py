"""What is known about tools: pure functions over names and definitions."""
