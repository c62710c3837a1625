"""`lading mcp`: a server for assistants, by the Model Context Protocol.

`tools` has what an assistant may call, `bounds` the limits of answers, `server` the protocol.
"""
