// Runs before the page is drawn: the colours that this browser chose, and that scripts run.
(() => {
  const root = document.documentElement;
  root.classList.add("has-js");
  try {
    const theme = localStorage.getItem("delayq-theme");
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  } catch { /* no storage: as the system says */ }
})();
