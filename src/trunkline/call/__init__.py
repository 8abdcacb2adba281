"""The data path: the stages that a call passes, from entry to send."""
