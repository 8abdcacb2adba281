// Requests to the gateway, who is signed in, and what changes while one looks.
import { signal, useEffect, useRef, useState } from "./vendor/preact.js";

export const me = signal(null);
/** Whether events arrive as they happen, or we have to ask for them. */
export const live = signal(false);

export class ApiError extends Error {
  constructor(status, { code = "", message, hint = "" }) {
    super(message);
    Object.assign(this, { status, code, hint });
  }
}

const API = "/api/v1/";
/** A part of a path, as text that may hold anything. */
export const part = (text) => encodeURIComponent(text);

/** A query string of what has a value. */
export function query(values) {
  const said = Object.entries(values).filter(([, value]) => value !== "" && value != null);
  return said.length ? "?" + new URLSearchParams(said) : "";
}

async function send(method, path, body, headers = {}, signal) {
  const said = { ...headers };
  if (method !== "GET") said["Trunkline-Console"] = "1";
  if (body !== undefined) said["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(API + path, {
      method, headers: said, signal, credentials: "same-origin", cache: "no-store",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { code: "unreachable", message: "The gateway does not answer.", hint: "Is it running?" });
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  if (answer.status === 401 && isIn()) loadMe(); // one is in no longer, and is asked for a key
  throw new ApiError(answer.status, told.error ?? { message: `The gateway answered ${answer.status}.` });
}

/** One request; gives what was answered, or throws an ApiError. */
export async function api(method, path, body, headers) {
  const answer = await send(method, path, body, headers);
  return answer.status === 204 ? null : answer.json();
}

/** Call a tool; `told` gets progress and log messages before the answer comes back. */
export async function callTool(name, body, told, signal) {
  const answer = await send("POST", `tools/${part(name)}/call`, body, { Accept: "text/event-stream, application/json" }, signal);
  if (!(answer.headers.get("content-type") ?? "").startsWith("text/event-stream")) return answer.json();
  for await (const event of eventsOf(answer.body)) {
    if (event.type === "result") return event.data;
    if (event.type === "error") throw new ApiError(502, event.data.error ?? event.data);
    told(event);
  }
  throw new ApiError(0, { message: "The answer ended before the result." });
}

async function* eventsOf(stream) {
  let text = "";
  for await (const piece of stream.pipeThrough(new TextDecoderStream())) {
    text += piece.replaceAll("\r\n", "\n");
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n");
      const type = lines.find((line) => line.startsWith("event:"))?.slice(6).trim();
      const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5)).join("\n");
      if (type && data) yield { type, data: JSON.parse(data) };
    }
  }
}

export async function loadMe() {
  try {
    me.value = await api("GET", "me");
  } catch (error) {
    // A gateway without this route has no sign-in of its own either.
    me.value = error.status === 404
      ? { user: "", role: "admin", signed_in: true, needs_key: false, issuers: [], address: location.origin + "/mcp", profiles: [], can: { add_servers: true, see_all: true, people: true } }
      : { failed: error };
  }
  if (isIn()) follow();
}

export const isIn = () => Boolean(me.value && !me.value.failed && (me.value.signed_in || !me.value.needs_key));
export const isAdmin = () => me.value?.role === "admin";

// What is live: pages say which events concern them, and are told at most a few times a second.

const POLL = 4000;
const listeners = new Set();
let source = null;

function follow() {
  if ((source && source.readyState !== EventSource.CLOSED) || document.hidden) return;
  const own = new EventSource(API + "events");
  source = own;
  source.onopen = () => { live.value = true; };
  source.onerror = () => {
    live.value = false;
    if (own.readyState === EventSource.CLOSED) setTimeout(() => { if (source === own && isIn()) follow(); }, 30_000);
  };
  source.onmessage = ({ data }) => { const event = read(data); if (event) tell(event.type, event); };
  if (!follow.timer) follow.timer = setInterval(() => { if (!live.value && !document.hidden) tell("", null); }, POLL);
}

// A browser has six connections to one address: tabs that nobody sees keep none of them, and look again once they are seen.
document.addEventListener("visibilitychange", () => {
  if (!isIn()) return;
  if (document.hidden) {
    source?.close();
    source = null;
    live.value = false;
  } else {
    follow();
    tell("", null);
  }
});

function read(text) {
  try { return JSON.parse(text); } catch { return null; }
}

function tell(name, data) {
  for (const one of [...listeners]) if (!name || one.names.some((prefix) => name.startsWith(prefix))) one.hear(name, data);
}

/** Have `hear(name, data)` called for events whose names begin with one of `names`; without events, now and then. */
export function useEvents(names, hear) {
  const latest = useRef(hear);
  latest.current = hear;
  useEffect(() => {
    const one = { names, hear: (name, data) => latest.current(name, data) };
    listeners.add(one);
    return () => listeners.delete(one);
  }, []);
}

const seen = new Map(), underWay = new Map();

/** What a path gives; several who ask for it at once get one answer. */
function together(path) {
  if (!underWay.has(path)) underWay.set(path, api("GET", path).finally(() => underWay.delete(path)));
  return underWay.get(path);
}

/** What a path gives, read again when `on` happens: `{data, error, reload}`; what was read before shows at once. */
export function useData(path, { on = [], often = 400 } = {}) {
  const [state, set] = useState({ path, data: seen.get(path) });
  const now = useRef({});
  now.current.path = path;
  const reload = async (ask = (wanted) => api("GET", wanted)) => {
    const asked = path;
    if (asked == null) return;
    try {
      const data = await ask(asked);
      if (seen.size > 60) seen.delete(seen.keys().next().value);
      seen.set(asked, data);
      if (now.current.path === asked) set({ path: asked, data });
    } catch (error) {
      if (now.current.path === asked) set((was) => ({ path: asked, data: error.status === 0 ? was.data : undefined, error }));
    }
  };
  useEffect(() => { reload(together); return () => clearTimeout(now.current.timer); }, [path]);
  useEffect(() => () => { now.current.path = null; }, []);
  useEvents(on, () => {
    clearTimeout(now.current.timer);
    now.current.timer = setTimeout(() => now.current.path && reload(), often);
  });
  const current = state.path === path ? state : { data: seen.get(path) };
  return { data: current.data, error: current.error, reload: () => reload() };
}

/** Pages of a list, one at a time: `{items, data, error, more, back, next, previous, reload}`. */
export function usePages(path, values, name, options) {
  const key = path + query(values);
  const [at, set] = useState({ key, trail: [] });
  const trail = at.key === key ? at.trail : [];
  const cursor = trail[trail.length - 1] ?? "";
  const found = useData(path == null ? null : path + query({ ...values, cursor }), options);
  const after = found.data?.cursor;
  return {
    ...found, items: found.data?.[name],
    number: trail.length + 1,
    next: after ? () => set({ key, trail: [...trail, after] }) : null,
    previous: trail.length ? () => set({ key, trail: trail.slice(0, -1) }) : null,
  };
}
