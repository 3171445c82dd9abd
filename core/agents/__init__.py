"""Headlight as an instrument for agents: ten calls, over MCP or as lines of JSON. docs/agents.md shows sessions."""
