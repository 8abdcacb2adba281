"""What is counted: how calls went, and what searching saved."""
