"""Programs over tools: Python that models write, in a sandbox where each tool is an async function."""
