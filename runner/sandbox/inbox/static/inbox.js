// Keeps an open page current. Without this script everything works by links and forms.
"use strict";

(() => {
  const live = document.getElementById("live");
  const problem = document.getElementById("problem");
  const announcer = document.getElementById("announcer");
  const scroller = document.querySelector(".scroller");
  const marker = document.body.dataset.seen;
  const PATIENCE_MS = 9000; // the service itself gives up after 8 s, and says why

  // Whether the toast says that nothing answers, which ends by itself.
  let isAboutConnection = false;

  const show = (text, ofConnection = false) => {
    problem.textContent = text;
    problem.hidden = !text;
    isAboutConnection = ofConnection;
  };

  const showBack = () => isAboutConnection && show("");

  const isAtEnd = () => Math.abs(scroller.scrollTop) < 80;

  const lastLine = (root) => Math.max(0, ...[...root.querySelectorAll("[data-line]")].map((line) => Number(line.dataset.line)));

  const announce = (region, since) => {
    const news = [...region.querySelectorAll("[data-line]")].filter((line) => Number(line.dataset.line) > since);
    if (news.length) announcer.textContent = news.map((line) => line.querySelector(".bubble").textContent).join(". ");
  };

  // What the focused element is in the new content: the one at the same place in the tab order of its region.
  const focusable = (region) => [...region.querySelectorAll("a[href], button, summary, [tabindex]")];

  const keyOf = (node) => node.dataset?.key ?? node.dataset?.line ?? (node.id || null);

  // What the reader and this script have set, and a fresh page knows nothing of.
  const OURS = new Set(["open", "disabled"]);

  const mergeAttributes = (shown, fresh) => {
    for (const { name } of [...shown.attributes]) {
      if (!OURS.has(name) && !fresh.hasAttribute(name)) shown.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (shown.getAttribute(name) !== value) shown.setAttribute(name, value);
    }
  };

  // What each child of `fresh` is in `shown`: the one with its key, else the next without a key of its kind.
  const findMatches = (shown, fresh) => {
    const known = new Map();
    const nameOf = (node) => keyOf(node) ?? node.nodeName;
    for (const each of shown.childNodes) known.set(nameOf(each), [...(known.get(nameOf(each)) ?? []), each]);
    return new Map([...fresh.childNodes].map((node) => [node, known.get(nameOf(node))?.shift()]));
  };

  // Makes `shown` like `fresh` and leaves alone what is the same in both: what is unfolded, scrolled, selected or
  // focused there stays so.
  const merge = (shown, fresh) => {
    const matches = findMatches(shown, fresh);
    const kept = new Set(matches.values());
    for (const each of [...shown.childNodes]) if (!kept.has(each)) each.remove();
    let place = shown.firstChild;
    for (const [node, match] of matches) {
      if (match !== undefined && match === place) place = place.nextSibling;
      else shown.insertBefore(match ?? node, place);
      if (match === undefined || match.isEqualNode(node)) continue;
      if (match.nodeType === Node.ELEMENT_NODE) {
        mergeAttributes(match, node);
        merge(match, node);
      } else match.data = node.data;
    }
  };

  const update = (region, fresh) => {
    const focused = document.activeElement;
    const index = focusable(region).indexOf(focused);
    const link = index >= 0 ? focused.getAttribute("href") : null;
    const since = lastLine(region);
    merge(region, fresh);
    if (index >= 0 && document.activeElement !== focused) {
      const now = focusable(region);
      const same = now.find((each) => link !== null && each.getAttribute("href") === link);
      (same ?? now[index] ?? document.getElementById("reply") ?? document.getElementById("main")).focus({ preventScroll: true });
    }
    if ("announce" in region.dataset) announce(region, since);
  };

  // The service's time, which goes on while nothing else happens.
  const clock = document.getElementById("clock");
  let ahead = 0;

  const readClock = () => {
    ahead = Date.parse(clock.dateTime) - Date.now();
  };

  const tick = () => {
    const now = new Date(Date.now() + ahead);
    clock.dateTime = now.toISOString();
    clock.firstChild.data = now.toISOString().slice(11, 16);
    clock.lastChild.textContent = ` UTC, ${now.getUTCDate()} ${now.toLocaleString("en", { month: "short", timeZone: "UTC" })}`;
  };

  // Six pages that are open side by side take all the connections that a browser makes to one service: then the
  // next request waits until one of them is closed.
  const ask = async (address, options) => {
    const patience = new AbortController();
    const timer = setTimeout(() => patience.abort(), PATIENCE_MS);
    try {
      const answer = await fetch(address, { ...options, signal: patience.signal });
      return [answer, new DOMParser().parseFromString(await answer.text(), "text/html")];
    } finally {
      clearTimeout(timer);
    }
  };

  const explain = (error) =>
    error.name === "AbortError"
      ? "The sandbox did not answer within 9 seconds. It may be busy, or too many of its pages are open in this browser: six side by side are the most."
      : "The sandbox does not answer. Is it still running?";

  let running = false;
  let again = false;
  let isStuck = false;

  // One fetch at a time; changes that come meanwhile are one more.
  const refresh = async () => {
    if (running) {
      again = true;
      return;
    }
    running = true;
    try {
      do {
        again = false;
        const [answer, page] = await ask(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
        // What was shown is gone, or nobody is logged in: the page that says so is the right one now.
        if (answer.status === 404 || answer.redirected) return location.reload();
        if (!answer.ok) return;
        showBack();
        isStuck = false;
        const wasAtEnd = scroller && isAtEnd();
        for (const region of document.querySelectorAll("[data-live]")) {
          const fresh = page.getElementById(region.id);
          if (fresh) update(region, fresh);
        }
        readClock();
        if (wasAtEnd) scroller.scrollTop = 0;
        if (page.body.dataset.seen) document.body.dataset.seen = page.body.dataset.seen;
      } while (again);
    } catch (error) {
      // Where nothing answers at all, the stream says when the service is back.
      isStuck = error.name === "AbortError";
      if (isStuck) show(explain(error), true);
    } finally {
      running = false;
    }
  };

  // A hidden page holds no connection: browsers allow six to one service.
  let stream = null;
  let retry = 0;

  const tell = (state, text) => {
    live.dataset.state = state;
    live.textContent = text;
  };

  const close = () => {
    clearTimeout(retry);
    stream?.close();
    stream = null;
  };

  const open = () => {
    close();
    stream = new EventSource(`/_sandbox/inbox/events?seen=${encodeURIComponent(document.body.dataset.seen)}`);
    stream.onopen = () => {
      tell("on", "Live");
      showBack();
    };
    stream.addEventListener("change", refresh);
    stream.onerror = () => {
      tell("off", "Reconnecting");
      // An answer that is no stream: the page may have more to say about it.
      if (stream?.readyState === EventSource.CLOSED) retry = setTimeout(() => refresh().then(open), 2000);
    };
  };

  readClock();
  setInterval(tick, 30_000);

  if (marker) {
    document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
    window.addEventListener("pagehide", close);
    window.addEventListener("pageshow", (event) => event.persisted && open());
    if (!document.hidden) open();
  }

  // A draft outlives a reload, a login and a restart of the service, in this tab alone.
  const DRAFT = `draft ${location.pathname}`;

  const keepDraft = (text) => {
    try {
      if (text) sessionStorage.setItem(DRAFT, text);
      else sessionStorage.removeItem(DRAFT);
    } catch {
      // A browser that stores nothing for pages: then drafts are not kept.
    }
  };

  const readDraft = () => {
    try {
      return sessionStorage.getItem(DRAFT) ?? "";
    } catch {
      return "";
    }
  };

  const send = async (form, button) => {
    const body = new URLSearchParams(new FormData(form, button));
    for (const each of form.querySelectorAll("button")) each.disabled = true;
    try {
      const [answer, page] = await ask(form.action, { method: "POST", body });
      if (answer.ok) {
        show("");
        form.reset();
        if (form.querySelector("textarea")) keepDraft("");
        form.querySelector("textarea")?.dispatchEvent(new Event("input"));
        if (scroller) scroller.scrollTop = 0;
      } else show(page.getElementById("problem")?.textContent ?? "That was not done; reload the page and try again.");
    } catch (error) {
      return show(explain(error), true);
    } finally {
      for (const each of form.querySelectorAll("button")) each.disabled = false;
    }
    await refresh();
  };

  document.addEventListener("submit", (event) => {
    if (!("inline" in event.target.dataset)) return;
    event.preventDefault();
    const wasReply = event.target.closest(".composer");
    send(event.target, event.submitter).then(() => wasReply && document.getElementById("reply")?.focus());
  });

  const reply = document.getElementById("reply");
  reply?.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (reply.value.trim()) reply.form.requestSubmit();
  });
  reply?.addEventListener("input", () => {
    reply.rows = Math.min(5, reply.value.split("\n").length);
    keepDraft(reply.value);
  });
  if (reply && !reply.value && readDraft()) {
    reply.value = readDraft();
    reply.dispatchEvent(new Event("input"));
  }

  document.querySelector(".logout")?.addEventListener("submit", () => sessionStorage.clear());

  document.addEventListener("change", (event) => {
    if (event.target.matches(".filters select")) event.target.form.requestSubmit();
  });

  // The conversation is held at its end: what unfolds above would push the button that folds it out of sight.
  document.addEventListener(
    "toggle",
    ({ target }) => target.matches(".stretch[open]") && target.querySelector("summary").scrollIntoView({ block: "nearest" }),
    true,
  );

  // The menu of the clock closes by Escape and by a click elsewhere.
  const menu = document.querySelector("details.clock");
  document.addEventListener("click", (event) => {
    if (menu?.open && !menu.contains(event.target)) menu.open = false;
  });

  // One key each, which people who dictate must be able to turn off (WCAG 2.2, 2.1.4).
  const OFF = "shortcuts off";
  const help = document.getElementById("shortcuts");
  const isOn = document.getElementById("shortcuts-on");
  if (isOn) {
    isOn.checked = localStorage.getItem(OFF) === null;
    isOn.addEventListener("change", () => (isOn.checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, "1")));
  }

  const step = (by) => {
    const links = [...document.querySelectorAll("#phones a.phone")];
    const here = links.findIndex((each) => each === document.activeElement || each.hasAttribute("aria-current"));
    const focused = links.indexOf(document.activeElement);
    const from = focused >= 0 ? focused : here;
    links[from < 0 ? 0 : Math.min(Math.max(from + by, 0), links.length - 1)]?.focus();
  };

  const SHORTCUTS = {
    "/": () => document.querySelector(".search input")?.focus(),
    "?": () => help?.showModal(),
    j: () => step(1),
    k: () => step(-1),
    l: () => location.assign("/"),
    p: () => location.assign("/phones"),
    c: () => location.assign("/controls"),
    r: () => reply?.focus(),
  };

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && menu?.open) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
    const isTyping = event.target.closest("input:not([type=checkbox]), textarea, select");
    if (isTyping || help?.open || event.ctrlKey || event.metaKey || event.altKey) return;
    // The list itself opens in any case, so that shortcuts can be turned on again.
    if (!(event.key in SHORTCUTS) || (!isOn?.checked && event.key !== "?")) return;
    event.preventDefault();
    SHORTCUTS[event.key]();
  });
})();
