// All requests to the server use call.

const TIMEOUT = 15_000;

// call sends a request and always returns {ok, status, body, reason, detail, retry}. retry is
// the time in milliseconds until a retry, or null if a retry does not help. Status is 0 if the
// server is unreachable.
export async function call(method, path, body, headers = {}) {
  const init = { method, headers: { Accept: "application/json", ...headers }, signal: AbortSignal.timeout(TIMEOUT) };
  if (method !== "GET") {
    init.headers["Flashsale-Request"] = "1";
    init.headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body ?? {});
  }
  let response;
  let data = null;
  try {
    response = await fetch(path, init);
    if (/json/.test(response.headers.get("Content-Type") ?? "")) data = await response.json();
    else await response.text();
  } catch (cause) {
    if (response === undefined || !response.ok) {
      return { ok: false, status: 0, body: {}, reason: "unreachable", detail: String(cause), retry: 1000 };
    }
    data = null;
  }
  // A 2xx response without JSON is not from this server.
  if (response.ok && data !== null && typeof data === "object") {
    return { ok: true, status: response.status, body: data, headers: response.headers, retry: null };
  }
  const problem = data !== null && typeof data === "object" ? data : {};
  return {
    ok: false,
    status: response.ok ? 0 : response.status,
    body: problem,
    reason: response.ok ? "unreachable" : String(problem.reason ?? ""),
    detail: String(problem.detail ?? problem.title ?? ""),
    retry: retryOf(response, problem),
  };
}

function retryOf(response, problem) {
  const said = Number(response.headers.get("Retry-After"));
  if (Number.isFinite(problem.retry_after_ms) && problem.retry_after_ms > 0) return problem.retry_after_ms;
  if (Number.isFinite(said) && said > 0) return said * 1000;
  return [0, 200, 425, 429, 500, 502, 503, 504].includes(response.ok ? 0 : response.status) ? 1000 : null;
}

// random returns a unique name: 128 random bits in hex.
export function random() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}

// Storage may be full or disabled. Its data only makes a reload smoother.
const store = (which) => ({
  get(key) {
    try { return JSON.parse(window[which].getItem(key)); } catch { return null; }
  },
  set(key, value) {
    try {
      if (value === null) window[which].removeItem(key);
      else window[which].setItem(key, JSON.stringify(value));
    } catch { /* see above */ }
  },
});
export const local = store("localStorage");
export const session = store("sessionStorage");
