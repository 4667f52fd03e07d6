"""A small MCP server for tests: a tool reads a file, one says that it deployed, one repeats a query, and one returns an account."""
import json, sys

TOOLS = [
    {"name": "read", "description": "Reads a file.", "inputSchema": {"type": "object", "properties": {"target": {"type": "string"}}, "required": ["target"]}},
    {"name": "deploy", "description": "Deploys.", "inputSchema": {"type": "object", "properties": {"version": {"type": "string"}}, "required": ["version"]}},
    {"name": "query", "description": "Runs a query.", "inputSchema": {"type": "object", "properties": {"sql": {"type": "string"}}, "required": ["sql"]}},
    {"name": "account", "description": "Shows an account.", "inputSchema": {"type": "object", "properties": {}}},
]
ACCOUNT = {"user": "ann", "password": "correct-horse", "token": "battery-staple"}

def call(name, arguments):
    try:
        if name == "read":
            return open(arguments["target"]).read(), False
        if name == "query":
            return "ran: " + arguments["sql"], False
        if name == "account":
            return json.dumps(ACCOUNT), False
        return "deployed " + arguments["version"], False
    except OSError as error:
        return str(error), True

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "notes", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        text, failed = call(params["name"], params.get("arguments", {}))
        result = {"content": [{"type": "text", "text": text}], "isError": failed}
        if params["name"] == "account":
            result["structuredContent"] = ACCOUNT
    else:
        error = {"code": -32601, "message": "there is no method " + method}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
