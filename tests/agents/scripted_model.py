"""A model on loopback that plays a script, for real agents: no real model, no network, no dependencies.

It speaks the Anthropic Messages API, OpenAI's Responses and Chat Completions APIs, and Gemini's generateContent API, each as one JSON
object and as a stream. The script is part of the prompt:

    PLAY claude-code-1 [{"shell": "cat .env"}, {"write": ["/w/hello.txt", "hi"]}]

The first word names the run. Each element of the list is one reply of the model; an element that is a list is one reply with several
calls. The number of calls that are in the conversation already says which reply is next, so the model keeps no state of its own. After
the last reply it says `PLAYED n`. It answers requests without a script (titles, summaries) with `ok`. The steps are:

    {"shell": COMMAND}  {"read": PATH}  {"write": [PATH, TEXT]}  {"edit": [PATH, OLD, NEW]}  {"fetch": URL}
    {"glob": PATTERN}   {"grep": PATTERN}   {"ls": PATH}
    {"tool": NAME, "input": {...}}         a tool by its exact name
    {"say": TEXT}                          a text, which ends the turn

It is strict. If the agent does not offer the tool that a step needs, the reply is `NO TOOL ...`, and the run is marked as failed. So a
tool that was renamed fails the check.
"""

import gzip
import http.server
import json
import re
import threading
import time
import uuid

# The names under which agents offer a tool of this kind.
KINDS = {
    "shell": ["Bash", "bash", "run_shell_command", "exec_command", "shell"],
    "read": ["Read", "read", "read_file", "view"],
    "write": ["Write", "write", "write_file", "create", "apply_patch"],
    "edit": ["Edit", "edit", "replace", "apply_patch"],
    "fetch": ["WebFetch", "webfetch", "web_fetch"],
    "glob": ["Glob", "glob"],
    "grep": ["Grep", "grep", "grep_search"],
    "ls": ["LS", "list_directory", "tree"],
}
PATH_ARGUMENTS = ["file_path", "filePath", "absolute_path", "path", "dir_path"]
TEXT_ARGUMENTS = ["content", "file_text"]
OLD_ARGUMENTS = ["old_string", "oldString", "old_str", "before"]
NEW_ARGUMENTS = ["new_string", "newString", "new_str", "after"]
# Claude Code offers this tool while a server is not up yet. The model uses it if a tool is missing; it is no part of the script.
WAITING_TOOL = "WaitForMcpServers"
# Codex offers this tool to its newer models, in place of all others.
CODE_TOOL = "exec"
SCRIPT = re.compile(r"PLAY ([A-Za-z0-9_.-]+) (?=\[)")


class MissingTool(Exception):
    """The agent offers no tool for a step of the script."""


class Tool:
    """A tool as an agent offers it."""

    def __init__(self, name, schema=None, is_freeform=False, namespace=None):
        schema = schema or {}
        self.name = name
        self.arguments = schema.get("properties") or {}
        self.required = schema.get("required") or []
        self.is_freeform = is_freeform
        self.namespace = namespace

    def has(self, names):
        return next((name for name in names if name in self.arguments), None)

    def described(self):
        return {"args": sorted(self.arguments), "required": sorted(self.required), "freeform": self.is_freeform}


class Conversation:
    """The content of a request, whatever the API: the script, the number of calls since, the results, and the tools."""

    def __init__(self):
        self.run = None
        self.script = None
        self.calls = 0
        self.results = []
        self.tools = {}

    def hear_user(self, text):
        found = SCRIPT.search(text)
        if found is None:
            return
        rest = text[found.end():]
        # OpenCode sends a prompt of several words as a quoted string.
        for candidate in (rest, rest.replace('\\"', '"')):
            try:
                script = json.JSONDecoder().raw_decode(candidate)[0]
            except ValueError:
                continue
            self.run, self.script, self.calls, self.results = found.group(1), script, 0, []
            return

    def reply(self):
        """Returns the calls of the next reply, or a text."""
        done = 0
        for element in self.script:
            steps = element if isinstance(element, list) else [element]
            if done == self.calls:
                if "say" in steps[0]:
                    return [], steps[0]["say"]
                return [call_for(step, self.tools) for step in steps], None
            done += len(steps)
        return [], f"PLAYED {self.calls}"


def call_for(step, tools):
    """Returns the name and the input of the call that a step means, in the agent's own words."""
    if "tool" in step:
        if step["tool"] not in tools and WAITING_TOOL in tools:
            return WAITING_TOOL, {}
        if step["tool"] not in tools:
            raise MissingTool(step["tool"])
        return step["tool"], step.get("input", {})
    kind = next(key for key in step if key in KINDS)
    value = step[kind]
    name = next((name for name in KINDS[kind] if name in tools), None)
    if name is None and kind in ("shell", "write", "edit") and CODE_TOOL in tools:
        return CODE_TOOL, code_for(kind, value)
    if name is None:
        raise MissingTool(kind)
    tool = tools[name]
    if name == "apply_patch":
        patch = patch_for(kind, value)
        return name, patch if tool.is_freeform else {tool.has(["input", "patch"]) or "input": patch}
    path = tool.has(PATH_ARGUMENTS)
    if kind == "shell":
        given = {tool.has(["command", "cmd"]): value}
    elif kind in ("read", "ls"):
        given = {path: value}
    elif kind == "write":
        given = {path: value[0], tool.has(TEXT_ARGUMENTS): value[1]}
    elif kind == "edit":
        given = {path: value[0], tool.has(OLD_ARGUMENTS): value[1], tool.has(NEW_ARGUMENTS): value[2]}
    elif kind == "fetch":
        given = {"url": value} if "url" in tool.arguments else {"prompt": "fetch " + value}
    else:
        given = {"pattern": value}
    if None in given:
        raise MissingTool(f"an argument of {name}; it has {sorted(tool.arguments)}")
    for argument in tool.required:
        given.setdefault(argument, placeholder(tool.arguments.get(argument) or {}))
    return name, given


def code_for(kind, value):
    """Returns a program that makes the call, for the newer models of Codex, which offer one tool that runs JavaScript."""
    if kind == "shell":
        return f"text(JSON.stringify(await tools.exec_command({json.dumps({'cmd': value})})))"
    return f"text(JSON.stringify(await tools.apply_patch({json.dumps(patch_for(kind, value))})))"


def placeholder(schema):
    """Returns a value for a required argument that the script does not name."""
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    kind = (kind[0] if isinstance(kind, list) else kind or "string").lower()
    return {"boolean": False, "number": 1, "integer": 1, "array": [], "object": {}}.get(kind, "x")


def patch_for(kind, value):
    if kind == "write":
        path, text = value
        added = "\n".join("+" + line for line in text.split("\n"))
        return f"*** Begin Patch\n*** Add File: {path}\n{added}\n*** End Patch\n"
    path, old, new = value
    lines = ["-" + line for line in old.split("\n")] + ["+" + line for line in new.split("\n")]
    return f"*** Begin Patch\n*** Update File: {path}\n@@\n" + "\n".join(lines) + "\n*** End Patch\n"


def text_of(content):
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def new_id(prefix):
    return prefix + uuid.uuid4().hex[:20]


# ------------------------------------------------------------------------------------------------------------ reading requests


def read_anthropic(body):
    said, waits = Conversation(), set()
    for tool in body.get("tools") or []:
        said.tools[tool.get("name")] = Tool(tool.get("name"), tool.get("input_schema"))
    for message in body.get("messages") or []:
        content = message.get("content")
        parts = content if isinstance(content, list) else []
        if message.get("role") == "user":
            said.hear_user(text_of(content))
            results = [part for part in parts if part.get("type") == "tool_result" and part.get("tool_use_id") not in waits]
            said.results += [text_of(part.get("content")) for part in results]
        else:
            calls = [part for part in parts if part.get("type") == "tool_use"]
            waits |= {part.get("id") for part in calls if part.get("name") == WAITING_TOOL}
            said.calls += sum(part.get("name") != WAITING_TOOL for part in calls)
    return said


def read_chat(body):
    said = Conversation()
    for tool in body.get("tools") or []:
        function = tool.get("function") or tool
        said.tools[function.get("name")] = Tool(function.get("name"), function.get("parameters"))
    for message in body.get("messages") or []:
        match message.get("role"):
            case "user":
                said.hear_user(text_of(message.get("content")))
            case "assistant":
                said.calls += len(message.get("tool_calls") or [])
            case "tool":
                said.results.append(text_of(message.get("content")))
    return said


def read_responses(body):
    said = Conversation()

    def add(tool, namespace=None):
        if tool.get("type") == "namespace":
            for inner in tool.get("tools") or []:
                add(inner, tool.get("name", ""))
            return
        name = tool.get("name") or tool.get("type")
        # Codex sends the tools of a server as a namespace, and expects its name beside the name of the tool. Its own are `functions`.
        full = name if namespace in (None, "functions") else namespace.rstrip("_") + "__" + name
        said.tools[full] = Tool(name, tool.get("parameters"), tool.get("type") == "custom", namespace)

    for tool in body.get("tools") or []:
        add(tool)
    items = body.get("input")
    if isinstance(items, str):
        items = [{"type": "message", "role": "user", "content": items}]
    for item in items or []:
        kind = item.get("type", "message")
        if kind == "additional_tools":
            for tool in item.get("tools") or []:
                add(tool)
        elif kind == "message" and item.get("role") == "user":
            said.hear_user(text_of(item.get("content")))
        elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
            said.calls += 1
        elif kind.endswith("_output"):
            output = item.get("output")
            said.results.append(output if isinstance(output, str) else text_of(output) or json.dumps(output))
    return said


def read_gemini(body):
    said = Conversation()
    for group in body.get("tools") or []:
        for function in group.get("functionDeclarations") or []:
            schema = function.get("parameters") or function.get("parametersJsonSchema")
            said.tools[function.get("name")] = Tool(function.get("name"), schema)
    for content in body.get("contents") or []:
        for part in content.get("parts") or []:
            if "functionCall" in part:
                said.calls += 1
            elif "functionResponse" in part:
                said.results.append(json.dumps(part["functionResponse"].get("response")))
            elif content.get("role") != "model" and isinstance(part.get("text"), str):
                said.hear_user(part["text"])
    return said


# ------------------------------------------------------------------------------------------------------------- writing replies
# Each returns a JSON object, or a list of events with their names if the agent wants a stream.


def write_anthropic(body, calls, text, _tools):
    content = [{"type": "text", "text": text}] if text else []
    content += [{"type": "tool_use", "id": new_id("toolu_"), "name": name, "input": given} for name, given in calls]
    stop = "tool_use" if calls else "end_turn"
    usage = {"input_tokens": 10, "output_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message = {
        "id": new_id("msg_"), "type": "message", "role": "assistant", "model": body.get("model", "scripted"),
        "content": content, "stop_reason": stop, "stop_sequence": None, "usage": usage,
    }
    if not body.get("stream"):
        return message
    events = [{"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}]
    for index, block in enumerate(content):
        if block["type"] == "text":
            start, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            start, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage})
    events.append({"type": "message_stop"})
    return [(event["type"], event) for event in events]


def write_chat(body, calls, text, _tools):
    made = [
        {"index": index, "id": new_id("call_"), "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for index, (name, given) in enumerate(calls)
    ]
    stop = "tool_calls" if calls else "stop"
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    base = {"id": new_id("chatcmpl-"), "created": int(time.time()), "model": body.get("model", "scripted")}
    message = {"role": "assistant", "content": text}
    if made:
        message["tool_calls"] = made
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": stop}
        return {**base, "object": "chat.completion", "usage": usage, "choices": [choice]}

    def chunk(choices, **more):
        return None, {**base, "object": "chat.completion.chunk", "choices": choices, **more}

    return [
        chunk([{"index": 0, "delta": message, "finish_reason": None}]),
        chunk([{"index": 0, "delta": {}, "finish_reason": stop}]),
        chunk([], usage=usage),
        (None, "[DONE]"),
    ]


def write_responses(body, calls, text, tools):
    items = []
    if text:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        items.append({"type": "message", "id": new_id("msg_"), "role": "assistant", "status": "completed", "content": content})
    for name, given in calls:
        tool, call_id = tools[name], new_id("call_")
        if isinstance(given, str):
            item = {"type": "custom_tool_call", "id": new_id("ctc_"), "call_id": call_id, "name": tool.name, "input": given}
        else:
            item = {"type": "function_call", "id": new_id("fc_"), "call_id": call_id, "name": tool.name, "arguments": json.dumps(given)}
        if tool.namespace is not None:
            item["namespace"] = tool.namespace
        items.append({**item, "status": "completed"})
    usage = {
        "input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 20,
    }
    response = {
        "id": new_id("resp_"), "object": "response", "created_at": int(time.time()), "status": "completed",
        "model": body.get("model", "scripted"), "output": items, "usage": usage, "error": None, "incomplete_details": None,
    }
    if not body.get("stream"):
        return response
    events = [{"type": "response.created", "response": {**response, "status": "in_progress", "output": [], "usage": None}}]
    for index, item in enumerate(items):
        at = {"item_id": item["id"], "output_index": index}
        events.append({"type": "response.output_item.added", "output_index": index, "item": {**item, "status": "in_progress"}})
        if item["type"] == "message":
            events.append({"type": "response.output_text.delta", **at, "content_index": 0, "delta": text})
        elif item["type"] == "function_call":
            events.append({"type": "response.function_call_arguments.delta", **at, "delta": item["arguments"]})
            events.append({"type": "response.function_call_arguments.done", **at, "arguments": item["arguments"]})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": response})
    return [(event["type"], {**event, "sequence_number": number}) for number, event in enumerate(events)]


def write_gemini(body, calls, text, _tools):
    parts = [{"text": text}] if text else []
    parts += [{"functionCall": {"name": name, "args": given}, "thoughtSignature": "c2tpcA=="} for name, given in calls]
    config = body.get("generationConfig") or {}
    if config.get("responseMimeType") == "application/json" and not calls:
        # Gemini CLI asks small questions of its own beside the conversation.
        said = {
            "reasoning": "scripted", "next_speaker": "user", "model_choice": "flash", "complexity_score": 1,
            "complexity_reasoning": "scripted", "summary": "ok", "is_stuck": False,
        }
        parts = [{"text": json.dumps(said)}]
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20},
        "modelVersion": "scripted",
    }


def write_gemini_stream(body, calls, text, tools):
    return [(None, write_gemini(body, calls, text, tools))]


# The end of a path, and what reads the request and writes the reply.
APIS = [
    ("/messages", read_anthropic, write_anthropic),
    ("/chat/completions", read_chat, write_chat),
    ("/responses", read_responses, write_responses),
    (":generateContent", read_gemini, write_gemini),
    (":streamGenerateContent", read_gemini, write_gemini_stream),
]
MODEL_NAMES = ["gpt-5.5", "gpt-5", "claude-sonnet-4-5", "gemini-2.5-pro"]


class Run:
    """What the model saw of one script."""

    def __init__(self):
        self.results = []
        self.tools = {}
        self.missing = None
        self.is_finished = False


class ScriptedModel:
    """The server. It runs in threads of this process until `close`."""

    def __init__(self):
        self.lock = threading.Lock()
        self.runs = {}
        model = self

        class Handler(RequestHandler):
            owner = model

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()

    def run(self, name):
        with self.lock:
            return self.runs.setdefault(name, Run())

    def reply(self, said):
        """Returns the next reply of a conversation, and notes its results and tools."""
        # Agents ask for a title of the session with the prompt in it, but without tools.
        if said.script is None or not said.tools:
            return [], "ok"
        run = self.run(said.run)
        run.results = said.results
        run.tools = {name: tool.described() for name, tool in said.tools.items()}
        try:
            calls, text = said.reply()
        except MissingTool as missing:
            run.missing = str(missing)
            return [], f"NO TOOL for {missing} among {sorted(said.tools)}"
        run.is_finished = not calls
        return calls, text


class RequestHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner = None

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self):
        if "/models" not in self.path:
            return self.send_json({"error": {"type": "not_found_error", "message": "not here"}}, 404)
        date = "2026-01-01T00:00:00Z"
        kind = {"object": "model", "type": "model", "owned_by": "scripted", "created": 0, "created_at": date}
        models = [{"id": name, "display_name": name, **kind} for name in MODEL_NAMES]
        self.send_json({"object": "list", "data": models, "models": [], "has_more": False})

    def do_POST(self):
        try:
            body = json.loads(self.read_body() or b"{}")
        except ValueError:
            return self.send_json({"error": {"message": "not JSON"}}, 400)
        path = self.path.split("?")[0]
        if path.endswith("/count_tokens"):
            return self.send_json({"input_tokens": 10})
        if path.endswith(":countTokens"):
            return self.send_json({"totalTokens": 10})
        for end, read, write in APIS:
            if path.endswith(end):
                said = read(body)
                calls, text = self.owner.reply(said)
                written = write(body, calls, text, said.tools)
                return self.send_events(written) if isinstance(written, list) else self.send_json(written)
        self.send_json({"error": {"type": "not_found_error", "message": "not here"}}, 404)

    def read_body(self):
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            raw = b""
            while (size := int(self.rfile.readline().strip() or b"0", 16)) > 0:
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        return gzip.decompress(raw) if self.headers.get("content-encoding") == "gzip" else raw

    def send_json(self, value, status=200):
        raw = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def send_events(self, events):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("cache-control", "no-cache")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for name, data in events:
            text = data if isinstance(data, str) else json.dumps(data)
            line = f"event: {name}\n" if name else ""
            try:
                self.wfile.write(f"{line}data: {text}\n\n".encode())
                self.wfile.flush()
            except ConnectionError:
                # The agent was ended.
                return
