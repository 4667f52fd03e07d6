// Live updates and keyboard shortcuts. Every page works without this script, and the server checks every answer again.
"use strict";

const $ = (what, within = document) => within.querySelector(what);
const $$ = (what, within = document) => [...within.querySelectorAll(what)];

/* Updates the list, and closes the question on this page when it is no longer open. */
function follow() {
  const list = $("[data-live]");
  const article = $("article[data-question]");
  if (!list && !article) return;
  const title = document.title;
  // The number of open questions stands beside the inbox. The page of a question itself does not change while it is read.
  const inbox = $("nav a[href='/']");
  const badge = inbox?.appendChild(Object.assign(document.createElement("span"), { className: "badge", hidden: true }));
  let first = true;
  const source = new EventSource("/live");
  source.addEventListener("questions", (event) => {
    const told = JSON.parse(event.data);
    if (list && !first) refresh(list);
    if (badge) {
      badge.textContent = told.all ? told.open.length : `${told.open.length}+`;
      badge.hidden = !told.open.length;
    }
    if (list) document.title = told.open.length ? `(${told.open.length}) ${title}` : title;
    if (article && told.all && !told.open.includes(article.dataset.question)) close(article);
    first = false;
  });
}

async function refresh(list) {
  const response = await fetch("/", { headers: { accept: "text/html" } });
  if (response.redirected || !response.ok) return location.reload();
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const fresh = $("[data-live]", page);
  if (!fresh) return;
  const known = new Set($$("li[data-id]", list).map((item) => item.dataset.id));
  const marked = new Set($$("input:checked", list).map((box) => box.value));
  const focused = document.activeElement?.closest("li[data-id]")?.dataset.id;
  list.replaceChildren(...fresh.childNodes);
  for (const item of $$("li[data-id]", list)) {
    if (!known.has(item.dataset.id)) item.classList.add("fresh");
    if (marked.has(item.dataset.id)) $("input", item).checked = true;
    if (item.dataset.id === focused) $("a", item).focus();
  }
  // Announced to screen readers.
  const arrived = $$("li.fresh", list).length;
  if (!arrived) return;
  const said = $("#notice .arrived") ?? $("#notice").appendChild(document.createElement("p"));
  said.className = "arrived";
  said.textContent = arrived === 1 ? "One new question." : `${arrived} new questions.`;
}

/* Disables the answers of a closed question. The text of the page stays. */
function close(article) {
  $(".closed", article).hidden = false;
  for (const button of $$(".answers button, .bar button, form.card button", article)) button.disabled = true;
  article.dataset.closed = "";
}

/* Enables approval after the end of the question was visible for long enough in the focused window. */
function guard() {
  const article = $("article[data-dwell]");
  const forms = $$("form[data-approves]");
  if (!article || !forms.length) return;
  const buttons = forms.flatMap((form) => $$("button", form));
  // Shown only if this script disables the buttons.
  const hints = $$(".sleeping", article);
  for (const hint of hints) hint.hidden = false;
  const dwell = Number(article.dataset.dwell);
  const end = $(".answers", article) || forms[0];
  // What is behind the bar at the bottom is not in view.
  const covered = $(".bar", article)?.offsetHeight ?? 0;
  let seen = false;
  let timer;
  const wait = (ms) => {
    clearTimeout(timer);
    for (const button of buttons) button.disabled = true;
    if (!seen || document.hidden) return;
    timer = setTimeout(() => {
      if ("closed" in article.dataset) return;
      for (const button of buttons) button.disabled = false;
      article.dataset.ready = "";
      for (const hint of hints) hint.hidden = true;
    }, ms);
  };
  wait(dwell);
  new IntersectionObserver((entries, observer) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    seen = true;
    observer.disconnect();
    // The server counts from when it sent the page, which was a little earlier.
    wait(dwell + 100);
  }, { rootMargin: `0px 0px -${covered}px 0px` }).observe(end);
  // A click that brings the window to the front is not an answer.
  addEventListener("focus", () => wait(500));
  document.addEventListener("visibilitychange", () => wait(500));
  for (const form of forms) {
    form.addEventListener("submit", (event) => {
      if (!event.isTrusted) return event.preventDefault();
      for (const button of buttons) setTimeout(() => (button.disabled = true));
    });
  }
  // The confirmation text must be typed, not pasted or dropped.
  for (const field of $$("[data-typed]")) {
    for (const way of ["paste", "drop"]) field.addEventListener(way, (event) => event.preventDefault());
  }
}

/* A letter focuses an answer, and Enter sends it. */
function keys() {
  let typedAt = 0;
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const field = event.target.closest("input:not([type=checkbox]):not([type=radio]), textarea, select");
    if (event.key === "Escape") {
      if (field) field.blur();
      else if ($("article")) location.assign("/");
      return;
    }
    if (field) return;
    // Keys of a person who was typing when the page appeared are ignored.
    const running = event.timeStamp - typedAt < 400;
    if (event.key.length === 1) typedAt = event.timeStamp;
    const list = $$(".questions a");
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (list.length && step) {
      const at = list.indexOf(document.activeElement);
      list[Math.min(list.length - 1, Math.max(0, at + step))].focus();
      return event.preventDefault();
    }
    if (list.length && event.key === "x") {
      const box = document.activeElement.closest("li[data-id]")?.querySelector("input");
      if (box) box.checked = !box.checked;
      return;
    }
    const target = $$("[data-key]").find((one) => one.dataset.key === event.key);
    if (!target || running || event.repeat) return;
    event.preventDefault();
    const details = target.closest("details");
    if (details) details.open = true;
    if (target.matches("a")) return target.click();
    target.scrollIntoView({ block: "center" });
    target.focus();
  });
}

/* A link to a part of the answers opens it, and puts the cursor there. */
function jumps() {
  for (const link of $$(".bar a[href^='#']")) {
    link.addEventListener("click", (event) => {
      const target = $(link.getAttribute("href"));
      if (!target) return;
      event.preventDefault();
      if (target.matches("details")) target.open = true;
      target.scrollIntoView({ block: "center" });
      const place = target.matches("textarea, input") ? target : $("input:not([type=hidden]), textarea, button, summary", target);
      place?.focus();
    });
  }
}

/* Shows the remaining time. */
function clocks() {
  const all = $$("[data-until]");
  if (!all.length) return;
  const words = (s) => (s >= 7200 ? `${Math.floor(s / 3600)} h` : s >= 120 ? `${Math.floor(s / 60)} min` : `${s} s`);
  const tick = () => {
    for (const one of all) one.textContent = words(Math.max(0, Math.floor((one.dataset.until - Date.now()) / 1000)));
  };
  tick();
  setInterval(tick, 1000);
}

/* Without TLS, sessions live under a separate host. Unlike a cookie, local storage of this origin is not readable from other ports. */
function home() {
  const leads = $("a[data-leads]");
  if (leads) {
    localStorage.setItem("pages", new URL(leads.href).origin);
    return location.replace(leads.href);
  }
  const form = $("form[action='/sign-in']");
  const known = localStorage.getItem("pages");
  if (!form || !known || known === location.origin) return;
  const link = Object.assign(document.createElement("a"), { href: known + $("input[name=next]", form).value });
  link.textContent = "Continue where you signed in before";
  form.after(link);
}

home();
follow();
guard();
keys();
jumps();
clocks();
