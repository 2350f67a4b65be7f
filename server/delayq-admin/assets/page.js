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
  let waiting = null; // The newest change that could not be shown yet.
  let heardAt = 0; // When the last event came.
  const SILENCE = 15000;

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

  // Somebody is about to confirm something here.
  const isAsking = (part) => part.querySelector("details.sure[open]") !== null;

  // Somebody reads, selects or types here: it stays as it is.
  const isBusy = (part) => {
    const focus = document.activeElement;
    if (focus && focus !== document.body && part.contains(focus)) return true;
    const fields = [...part.querySelectorAll("input:not([type=hidden], [type=checkbox]), textarea")];
    if (fields.some((field) => field.value !== field.defaultValue)) return true;
    const selection = document.getSelection();
    return Boolean(selection && !selection.isCollapsed && part.contains(selection.anchorNode));
  };

  // What the server sent of each part: times are completed here, so the page itself differs.
  const sent = new Map();

  const remember = () => {
    sent.clear();
    for (const part of document.querySelectorAll("[data-live][id]")) sent.set(part.id, part.outerHTML);
  };

  const key = (box) => `${box.name} ${box.value}`;

  // A part in its new form keeps what its reader has opened, selected and focused.
  const renewed = (own, part) => {
    const next = document.importNode(part, true);
    const open = new Set([...own.querySelectorAll("details[open][id]")].map((one) => one.id));
    for (const one of next.querySelectorAll("details[id]")) if (open.has(one.id)) one.open = true;
    const picked = new Set([...own.querySelectorAll(".pick input:checked")].map(key));
    for (const box of next.querySelectorAll(".pick input")) box.checked = picked.has(key(box));
    localize(next);
    return next;
  };

  const swap = (change) => {
    const fresh = new DOMParser().parseFromString(change.html, "text/html");
    let isHeld = false;
    for (const part of fresh.querySelectorAll("[data-live][id]")) {
      const own = byId(part.id);
      if (!own || sent.get(part.id) === part.outerHTML) continue;
      const focus = document.activeElement?.matches?.(".pick input") ? document.activeElement : null;
      const isPicking = focus !== null && own.contains(focus);
      if (isAsking(own) || (!isPicking && isBusy(own))) { isHeld = true; continue; }
      const next = renewed(own, part);
      own.replaceWith(next);
      sent.set(part.id, part.outerHTML);
      if (isPicking) [...next.querySelectorAll(".pick input")].find((box) => key(box) === key(focus))?.focus();
      window.htmx?.process(next);
    }
    waiting = isHeld ? change : null;
    countPicked();
    window.delayqCharts?.draw();
    return isHeld;
  };

  // The lamp: what it says is what the last answer of the store was, not that there is a connection.
  const tell = (change, isHeld) => {
    if (isPaused) return;
    const shown = change.at ? `shown is what it had at ${change.at} UTC` : "nothing has been read yet";
    if (change.trouble === "error") say("stale", `The store does not answer; ${shown}`);
    else if (change.trouble === "slow") say("slow", `The store is slow; ${shown}`);
    else if (isHeld) say("held", "Updates wait while you are in a part of the page");
    else say("live", "The page is kept up to date");
  };

  const take = (change) => {
    const isHeld = change.html !== null ? swap(change) : waiting !== null;
    tell(change, isHeld);
  };

  const close = () => { source?.close(); source = null; };

  const connect = () => {
    close();
    if (!isLivePage()) { say("off", ""); return; }
    if (isPaused) { say("paused", "Updates are paused"); return; }
    if (document.hidden || !window.EventSource) return;
    const boot = byId("page").dataset.boot;
    source = new EventSource(location.href);
    heardAt = Date.now();
    source.onmessage = (event) => {
      if (event.target !== source) return;
      heardAt = Date.now();
      const change = JSON.parse(event.data);
      if (change.boot !== boot) {
        // The process was restarted: the forms of this page are no longer good.
        const isTyping = document.querySelector("details[open] textarea, dialog[open]");
        if (!isTyping) { close(); location.reload(); return; }
      }
      take(change);
    };
    source.onerror = () => {
      say("lost", "The connection is lost; the page tries again");
      if (source && source.readyState === EventSource.CLOSED) {
        close();
        setTimeout(() => { if (!source) connect(); }, 5000);
      }
    };
  };

  // An event comes every two to seven seconds. A connection can be dead without an error.
  setInterval(() => {
    if (source && !isPaused && Date.now() - heardAt > SILENCE) say("lost", "Nothing has come from the page's server for a while");
  }, 2000);

  const toggle = () => {
    isPaused = !isPaused;
    store.set("delayq-live", isPaused ? "paused" : "live");
    connect();
  };

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : connect()));
  document.addEventListener("focusout", () => setTimeout(() => waiting && take(waiting), 0));
  window.addEventListener("pagehide", close);

  // --- local time ------------------------------------------------------------------------------

  const two = (number) => String(number).padStart(2, "0");
  const clock = (date) => `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  const day = (date) => `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;

  // The page is in UTC; beside it stands the time of the reader, where that is another.
  const localize = (root) => {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const date = new Date(time.dateTime);
      if (Number.isNaN(date.getTime()) || date.getTimezoneOffset() === 0) continue;
      const local = `${day(date)} ${clock(date)}`;
      time.title = `${time.dateTime.slice(0, 19).replace("T", " ")} UTC\n${local} local time`;
      if (!time.dataset.clock) continue;
      const beside = document.createElement("span");
      beside.className = "local";
      beside.textContent = `${time.dataset.clock === "day" ? clock(date) : local} local`;
      (time.closest(".utc") ?? time).after(beside);
    }
  };

  // --- selection -------------------------------------------------------------------------------

  const boxes = () => [...document.querySelectorAll("td.pick input")];

  const countPicked = () => {
    const picked = boxes().filter((box) => box.checked).length;
    const count = byId("picked-count");
    if (count) count.textContent = String(picked);
    const all = byId("pick-all");
    if (!all) return;
    all.checked = picked > 0 && picked === boxes().length;
    all.indeterminate = picked > 0 && !all.checked;
  };

  document.addEventListener("change", (event) => {
    const box = event.target;
    if (box.id === "pick-all") for (const one of boxes()) one.checked = box.checked;
    if (box.closest?.(".pick")) countPicked();
  });

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
      case "s": {
        const search = byId("everywhere");
        if (search) { event.preventDefault(); search.focus(); search.select(); }
        break;
      }
      case "x": {
        const box = target.closest?.("tr")?.querySelector(".pick input");
        if (box) { box.checked = !box.checked; countPicked(); }
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
    remember();
    localize(document);
    countPicked();
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
