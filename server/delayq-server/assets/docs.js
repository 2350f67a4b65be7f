// Tries the routes of the HTTP API from their page. It asks this server alone, and keeps no token.
(() => {
  "use strict";

  const byId = (id) => document.getElementById(id);

  // The request that a form describes.
  const request = (form) => {
    let path = form.dataset.path;
    const query = new URLSearchParams();
    for (const field of form.querySelectorAll("[data-in]")) {
      const { in: place, name } = field.dataset;
      if (place === "path") path = path.replace(`{${name}}`, encodeURIComponent(field.value));
      else if (field.value !== "") query.append(name, field.value);
    }
    const asked = query.toString();
    const body = form.querySelector("textarea");
    return {
      method: form.dataset.method,
      url: asked ? `${path}?${asked}` : path,
      body: body && body.value !== "" ? body.value : undefined,
      type: body?.dataset.type,
    };
  };

  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

  const curl = ({ method, url, body, type }) => {
    const parts = [`curl -X ${method} ${quoted(location.origin + url)}`, `-H "Authorization: Bearer $DELAYQ_TOKEN"`];
    if (body !== undefined) parts.push(`-H ${quoted(`Content-Type: ${type}`)}`, `--data-binary ${quoted(body)}`);
    return parts.join(" \\\n  ");
  };

  const shown = (text, type) => {
    if (!/json/.test(type) || /ndjson/.test(type)) return text;
    try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
  };

  const send = async (form) => {
    const asked = request(form);
    const reply = form.parentElement.querySelector(".reply");
    const button = form.querySelector("button");
    reply.hidden = false;
    reply.textContent = "…";
    button.disabled = true;
    const headers = {};
    const token = byId("try-token").value.trim();
    if (token) headers.authorization = `Bearer ${token}`;
    if (asked.body !== undefined) headers["content-type"] = asked.type;
    const began = performance.now();
    try {
      const answer = await fetch(asked.url, { method: asked.method, headers, body: asked.body, credentials: "omit", cache: "no-store" });
      const text = await answer.text();
      const took = Math.round(performance.now() - began);
      const type = answer.headers.get("content-type") ?? "";
      reply.textContent = `${answer.status} ${answer.statusText} · ${took} ms · ${type || "no body"}\n\n${shown(text, type)}`;
    } catch (error) {
      reply.textContent = `no answer: ${error.message}`;
    } finally {
      button.disabled = false;
    }
  };

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches(".try form")) return;
    event.preventDefault();
    const isGrave = form.dataset.method === "DELETE" || /purge|discard|cancel-all/.test(form.dataset.path);
    if (isGrave && !window.confirm(`${form.dataset.method} ${request(form).url}\n\nThis changes the store. Send it?`)) return;
    send(form);
  });
  document.addEventListener("input", (event) => {
    const form = event.target.closest?.(".try form");
    if (form) form.parentElement.querySelector(".curl").textContent = curl(request(form));
  });
  document.addEventListener("toggle", (event) => {
    const form = event.target.open && event.target.matches?.(".try") ? event.target.querySelector("form") : null;
    if (form) form.parentElement.querySelector(".curl").textContent = curl(request(form));
  }, true);
})();
