// Keeps an open page current. Without this script everything works by links and forms.
"use strict";

const live = document.getElementById("live");
const problem = document.getElementById("problem");
const scroller = document.querySelector(".scroller");
const reply = document.getElementById("reply");
const lines = (root) => [...root.querySelectorAll("[data-line]")];
const nameOf = (node) => node && [node.tagName, node.id, node.getAttribute("href"), node.name, node.value].join(" ");
const say = (text) => ((problem.textContent = text), (problem.hidden = !text));

const ask = async (address, options) => {
  const answer = await fetch(address, { ...options, signal: AbortSignal.timeout(9000) });
  return [answer, new DOMParser().parseFromString(await answer.text(), "text/html")];
};

// Replaces what has changed; what is unfolded, focused and scrolled stays so.
const update = (region, fresh) => {
  for (const each of region.querySelectorAll("details[open]")) fresh.querySelector(`#${each.id}`)?.setAttribute("open", "");
  if (region.innerHTML === fresh.innerHTML) return;
  const active = region.contains(document.activeElement) ? document.activeElement : null;
  if (active?.matches("input, select")) return; // somebody is filling it in
  const focused = nameOf(active);
  const last = Math.max(0, ...lines(region).map((line) => line.dataset.line));
  region.replaceChildren(...fresh.childNodes);
  if (focused) ([...region.querySelectorAll("a, button, summary")].find((node) => nameOf(node) === focused) ?? reply)?.focus();
  const news = lines(region).filter((line) => line.dataset.line > last);
  if (news.length) document.getElementById("announcer").textContent = news.map((line) => line.firstElementChild.textContent).join(" ");
};

const refresh = async () => {
  const [answer, page] = await ask(location.href);
  if (answer.status === 404) return location.reload();
  const wasAtEnd = scroller && Math.abs(scroller.scrollTop) < 80;
  for (const region of document.querySelectorAll("[data-live]")) if (page.getElementById(region.id)) update(region, page.getElementById(region.id));
  if (wasAtEnd) scroller.scrollTop = 0;
};

// A hidden page holds no connection: browsers allow six to one service.
let stream = null;
const follow = () => {
  stream = stream?.close() ?? document.hidden ? null : new EventSource(`/_sandbox/inbox/events?seen=${document.body.dataset.seen}`);
  if (!stream) return;
  stream.onopen = () => (live.textContent = "Live");
  stream.onerror = () => (live.textContent = "Reconnecting");
  stream.addEventListener("change", () => refresh().then(() => say(""), () => say("The sandbox does not answer.")));
};
if (document.body.dataset.seen) {
  follow();
  document.addEventListener("visibilitychange", follow);
  setInterval(() => document.hidden || refresh().catch(() => {}), 60_000); // the clock goes on
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!("inline" in form.dataset)) return;
  event.preventDefault();
  const [answer, page] = await ask(form.action, { method: "POST", body: new URLSearchParams(new FormData(form, event.submitter)) }).catch(() => []);
  say(answer?.ok ? "" : (page?.getElementById("problem")?.textContent ?? "The sandbox does not answer. Is it still running?"));
  if (answer?.ok) form.reset();
  await refresh().catch(() => {});
  if (form.closest(".composer")) reply.focus();
});
reply?.addEventListener("keydown", (event) => event.key === "Enter" && !event.shiftKey && !event.isComposing && (event.preventDefault(), reply.form.requestSubmit()));
document.addEventListener("change", (event) => event.target.matches(".filters select") && event.target.form.requestSubmit());
