// Keeps the page up to date, and its keys. Everything here is a comfort: without it the page works.
(() => {
  "use strict";

  const store = {
    get: (key) => { try { return localStorage.getItem(key); } catch { return null; } },
    set: (key, value) => { try { localStorage.setItem(key, value); } catch { /* no storage */ } },
  };
  const byId = (id) => document.getElementById(id);

  // --- live -----------------------------------------------------------------------------------

  let source = null;
  let isPaused = store.get("delayq-live") === "paused";
  let waiting = null; // The newest page that could not be shown yet.

  const say = (word, text) => {
    const button = byId("live-switch");
    if (!button) return;
    button.hidden = !isLivePage();
    button.dataset.state = word;
    button.setAttribute("aria-pressed", String(!isPaused));
    button.title = text;
    byId("live-word").textContent = word;
    const state = byId("live-state");
    if (state && state.dataset.word !== word) {
      // Read aloud when it turns, not at every update.
      if (state.dataset.word || word !== "live") state.textContent = text;
      state.dataset.word = word;
    }
  };

  const isLivePage = () => byId("page")?.hasAttribute("data-stream") ?? false;

  // Somebody reads, selects or types here: it stays as it is.
  const isBusy = (part) => {
    const focus = document.activeElement;
    if (focus && focus !== document.body && part.contains(focus)) return true;
    if (part.querySelector("details.sure[open]")) return true;
    const selection = document.getSelection();
    return Boolean(selection && !selection.isCollapsed && part.contains(selection.anchorNode));
  };

  const swap = (html) => {
    const fresh = new DOMParser().parseFromString(html, "text/html");
    let isHeld = false;
    for (const part of fresh.querySelectorAll("[data-live][id]")) {
      const own = byId(part.id);
      if (!own || own.outerHTML === part.outerHTML) continue;
      if (isBusy(own)) { isHeld = true; continue; }
      const open = new Set([...own.querySelectorAll("details[open][id]")].map((one) => one.id));
      const next = document.importNode(part, true);
      for (const one of next.querySelectorAll("details[id]")) if (open.has(one.id)) one.open = true;
      if (own.outerHTML === next.outerHTML) continue;
      own.replaceWith(next);
      window.htmx?.process(next);
    }
    waiting = isHeld ? html : null;
    window.delayqCharts?.draw();
    if (!isPaused) {
      if (isHeld) say("held", "Updates wait while you are in a part of the page");
      else say("live", "The page is kept up to date");
    }
  };

  const close = () => { source?.close(); source = null; };

  const connect = () => {
    close();
    if (!isLivePage()) { say("off", ""); return; }
    if (isPaused) { say("paused", "Updates are paused"); return; }
    if (document.hidden || !window.EventSource) return;
    const boot = byId("page").dataset.boot;
    source = new EventSource(location.href);
    source.onopen = () => say("live", "The page is kept up to date");
    source.onmessage = (event) => {
      if (event.target !== source) return;
      const change = JSON.parse(event.data);
      if (change.boot !== boot) {
        // The process was restarted: the forms of this page are no longer good.
        const isTyping = document.querySelector("details[open] textarea, dialog[open]");
        if (!isTyping) { close(); location.reload(); return; }
      }
      if (change.html !== null) swap(change.html);
    };
    source.onerror = () => {
      say("lost", "The connection is lost; the page tries again");
      if (source && source.readyState === EventSource.CLOSED) {
        close();
        setTimeout(() => { if (!source) connect(); }, 5000);
      }
    };
  };

  const toggle = () => {
    isPaused = !isPaused;
    store.set("delayq-live", isPaused ? "paused" : "live");
    connect();
  };

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : connect()));
  document.addEventListener("focusout", () => setTimeout(() => waiting && swap(waiting), 0));
  window.addEventListener("pagehide", close);

  // --- colours --------------------------------------------------------------------------------

  const themes = { auto: ["◐", "as the system"], light: ["○", "light"], dark: ["●", "dark"] };

  const showTheme = () => {
    const theme = document.documentElement.dataset.theme ?? "auto";
    const button = byId("theme-switch");
    if (!button) return;
    const [icon, name] = themes[theme];
    button.textContent = icon;
    button.setAttribute("aria-label", `Colours: ${name}`);
    button.title = `Colours: ${name}`;
  };

  const nextTheme = () => {
    const names = Object.keys(themes);
    const present = document.documentElement.dataset.theme ?? "auto";
    const next = names[(names.indexOf(present) + 1) % names.length];
    if (next === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    store.set("delayq-theme", next);
    showTheme();
    window.delayqCharts?.redraw();
  };

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    window.delayqCharts?.redraw());

  // --- keys -----------------------------------------------------------------------------------

  let isGoing = false;

  const move = (step) => {
    const rows = [...document.querySelectorAll("main a.row")];
    if (rows.length === 0) return;
    const at = rows.indexOf(document.activeElement);
    const next = at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step;
    rows[Math.min(Math.max(next, 0), rows.length - 1)].focus();
  };

  const onKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target;
    const isField = target.matches?.("input, textarea, select");
    if (event.key === "Escape" && (isField || target.matches?.("a.row"))) { target.blur(); return; }
    if (isField || document.querySelector("dialog[open]")) return;
    if (isGoing) {
      isGoing = false;
      const link = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
      return;
    }
    switch (event.key) {
      case "g":
        isGoing = true;
        setTimeout(() => { isGoing = false; }, 1500);
        break;
      case "/": {
        const search = byId("search");
        if (search) { event.preventDefault(); search.focus(); search.select(); }
        break;
      }
      case "j": move(1); break;
      case "k": move(-1); break;
      case "p": if (isLivePage()) toggle(); break;
      case "?": event.preventDefault(); byId("help").showModal(); break;
    }
  };

  document.addEventListener("keydown", onKey);
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button.tool");
    if (button?.id === "live-switch") toggle();
    if (button?.id === "theme-switch") nextTheme();
    if (button?.id === "help-open") byId("help").showModal();
  });

  // --- begin ----------------------------------------------------------------------------------

  const begin = () => {
    waiting = null;
    showTheme();
    window.delayqCharts?.draw();
    connect();
  };

  // A link or form has exchanged the page.
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.detail.target !== document.body && event.detail.elt !== document.body) return;
    begin();
    byId("main")?.focus({ preventScroll: true });
  });
  document.addEventListener("htmx:beforeRequest", close);
  document.addEventListener("htmx:sendError", () => say("lost", "The page cannot be reached"));
  begin();
})();
