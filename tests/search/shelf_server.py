"""A real MCP server over stdio that offers what lies in a folder: `python -S shelf_server.py FOLDER NAME ERA`.

`tools.json`, `prompts.json`, `resources.json` and `templates.json` are sent as they are, byte for byte. The file
`calls` gets a line for each call, with the arguments as they came; `log` gets `start PID`, `listened to` and
`cancelled ID`. SIGUSR1 makes it tell that its tools changed, SIGUSR2 makes it say something outside any call. Whoever
shakes hands and can be asked is shown `askable.json` instead of `tools.json`. It imports little, because tests start it
often.
"""

from __future__ import annotations

import json
import os
import signal
import sys

TYPE_CHECKING = False  # Importing `typing` for this one name would double the imports.
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

FOLDER, NAME, ERA = sys.argv[1], sys.argv[2], sys.argv[3]
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
FILES = {"resources/templates/list": "templates"}
CAPABILITIES = {
    "tools": {"listChanged": True},
    "prompts": {},
    "resources": {"subscribe": True},
    "completions": {},
    "logging": {},
}
EXACT = (
    b'"zebra":123456789012345678901234567890,"structuredContent":{"z":1.0,"a":null,"m":1E+2,"\\u006bey":-0.0},'
    b'"content":[{"text":"caf\\u00e9 \\/ \\ud83d\\ude00","type":"text"}],"isError":true,"_meta":{"own":1E+2}'
)
"""The members of the answer of `exact`, which must pass unchanged."""

initialized = askable = False
listens: list[Any] = []


def main() -> None:
    note("log", f"start {os.getpid()}")
    signal.signal(signal.SIGUSR1, on_signal)
    signal.signal(signal.SIGUSR2, on_signal)
    for line in sys.stdin.buffer:
        take(line.decode())


def on_signal(number: int, frame: object) -> None:
    if number == signal.SIGUSR1:
        tell("notifications/tools/list_changed", {})
    else:
        say({"level": "error", "data": f"{NAME} speaks"})


def take(line: str) -> None:
    message: Json = json.loads(line)
    method: str = message.get("method", "")
    params: Json = message.get("params") or {}
    if method == "notifications/cancelled":
        note("log", f"cancelled {params['requestId']}")
    if "id" not in message or not method:
        return
    modern = META + "protocolVersion" in params.get("_meta", {})
    id = json.dumps(message["id"]).encode()
    if method == "tools/call":
        call(id, params, line, modern)
    elif method in LISTS:
        file = "askable" if askable and method == "tools/list" else FILES.get(method, LISTS[method])
        listed = b'"%s":%s' % (LISTS[method].encode(), read(f"{file}.json"))
        answer(id, listed + (b',"ttlMs":0,"cacheScope":"private"' if modern else b""), modern)
    else:
        other(id, method, params, modern)


def other(id: bytes, method: str, params: Json, modern: bool) -> None:
    global initialized, askable
    about = {"capabilities": CAPABILITIES, "instructions": f"How {NAME} is used."}
    if method == "server/discover" and ERA != "legacy":
        identity = {META + "serverInfo": {"name": NAME, "version": "1"}}
        found = {"supportedVersions": [MODERN], **about, "ttlMs": 0, "cacheScope": "private", "_meta": identity}
    elif method == "initialize" and ERA != "modern":
        initialized, askable = True, "elicitation" in params["capabilities"]
        note("log", "listened to")
        found = {"protocolVersion": "2025-11-25", **about, "serverInfo": {"name": NAME, "version": "1"}}
    elif method == "subscriptions/listen":
        listens.append(json.loads(id))
        note("log", "listened to")
        tag = {META + "subscriptionId": json.loads(id)}
        granted = {"_meta": tag, "notifications": params["notifications"]}
        send({"method": "notifications/subscriptions/acknowledged", "params": granted})
        return
    elif method == "resources/read":
        found = {"contents": [{"uri": params["uri"], "text": f"{NAME} has {params['uri']}"}]}
    elif method == "prompts/get":
        found = {"messages": [{"role": "user", "content": {"type": "text", "text": f"{NAME} prompts"}}]}
    elif method == "completion/complete":
        found = {"completion": {"values": [NAME]}}
    elif method in ("ping", "resources/subscribe", "resources/unsubscribe", "logging/setLevel"):
        found = {}
    else:
        send({"id": json.loads(id), "error": {"code": -32601, "message": f"No method {method}."}})
        return
    answer(id, json.dumps(found)[1:-1].encode(), modern)


def call(id: bytes, params: Json, line: str, modern: bool) -> None:
    name = params["name"]
    note("calls", f"{name} {raw_arguments(line)}")
    if name == "wait":
        return  # until it is cancelled, and then there is nothing to say
    if name == "exact":
        answer(id, EXACT, modern)
        return
    if name == "chatter":
        token = params.get("_meta", {}).get("progressToken")
        if token is not None:
            send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
        say({"level": "error", "data": "chatter"})
    said = {"content": [{"type": "text", "text": f"{NAME} did {name}"}]}
    answer(id, json.dumps(said)[1:-1].encode(), modern)


def raw_arguments(line: str) -> str:
    """The arguments of a call as they were written."""
    start = line.find('"arguments":')
    if start < 0:
        return "none"
    start += len('"arguments":')
    start += len(line[start:]) - len(line[start:].lstrip())
    return line[start : json.JSONDecoder().raw_decode(line, start)[1]]


def answer(id: bytes, members: bytes, modern: bool) -> None:
    era = b'"resultType":"complete"' if modern else b""
    comma = b"," if era and members else b""
    write(b'{"jsonrpc":"2.0","id":' + id + b',"result":{' + members + comma + era + b"}}\n")


def say(params: Json) -> None:
    send({"method": "notifications/message", "params": params})


def tell(method: str, params: Json) -> None:
    """Send a notification to those who listen, in their way."""
    if initialized:
        send({"method": method, "params": params})
    for id in listens:
        send({"method": method, "params": {**params, "_meta": {META + "subscriptionId": id}}})


def send(message: Json) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def write(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def read(file: str) -> bytes:
    try:
        with open(f"{FOLDER}/{file}", "rb") as opened:
            return opened.read()
    except FileNotFoundError:
        return read("tools.json") if file == "askable.json" else b"[]"


def note(file: str, line: str) -> None:
    with open(f"{FOLDER}/{file}", "a", encoding="utf-8", errors="surrogatepass") as opened:
        opened.write(line + "\n")


if __name__ == "__main__":
    main()
