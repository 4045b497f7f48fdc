// Requests to the JSON API of the admin listener.

// A Problem is an error response: a problem document of RFC 9457.
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `HTTP ${status}`);
    this.status = status;
    this.body = body;
  }
}

async function request(method, path, body, signal) {
  const options = { method, signal, credentials: "same-origin", cache: "no-store", headers: { accept: "application/json" } };
  if (body !== undefined) {
    options.headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw new Problem(0, { detail: "", title: "unreachable" });
  }
  const text = await response.text();
  let data = {};
  try {
    data = text ? JSON.parse(text) : {};
  } catch {
    data = { detail: text.slice(0, 200) };
  }
  if (response.status === 401 && path !== "/v1/session") {
    location.assign("sign-in?next=" + encodeURIComponent(location.pathname.split("/").pop() + location.search));
  }
  if (!response.ok) throw new Problem(response.status, data);
  return data;
}

export const get = (path, signal) => request("GET", path, undefined, signal);
export const post = (path, body, signal) => request("POST", path, body, signal);
export const del = (path) => request("DELETE", path);

// policyPath returns the path of a resource of a policy.
export const policyPath = (name, rest) => `/v1/policies/${encodeURIComponent(name)}/${rest}`;
