"""Questions to a person in the middle of a call: what they are, who asks them, and which answers count."""
