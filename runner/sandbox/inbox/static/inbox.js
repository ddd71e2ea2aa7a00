// Keeps an open page current. Without this script everything works by links and forms.
"use strict";

const problem = document.getElementById("problem");
const reply = document.getElementById("reply");
const findLines = (region) => [...region.querySelectorAll("[data-line]")];
const nameOf = (node) => [node.tagName, node.getAttribute("href"), node.name, node.value].join(" ");

const say = (text) => {
  problem.textContent = text;
  problem.hidden = !text;
};

const ask = async (address, options) => {
  const answer = await fetch(address, { ...options, signal: AbortSignal.timeout(9000) });
  return [answer, new DOMParser().parseFromString(await answer.text(), "text/html")];
};

// What is unfolded, focused and scrolled stays so; where somebody fills in a field, nothing changes.
const update = (region, fresh) => {
  for (const each of region.querySelectorAll("details[open]")) fresh.querySelector(`#${each.id}`)?.setAttribute("open", "");
  const active = region.contains(document.activeElement) ? document.activeElement : null;
  if (region.innerHTML === fresh.innerHTML || active?.matches("input, select")) return;
  const last = Math.max(0, ...findLines(region).map((line) => line.dataset.line));
  region.replaceChildren(...fresh.childNodes);
  const same = active && [...region.querySelectorAll("a, button, summary")].find((node) => nameOf(node) === nameOf(active));
  if (active) (same ?? reply)?.focus();
  const news = findLines(region).filter((line) => line.dataset.line > last).map((line) => line.firstElementChild.textContent);
  if (news.length) document.getElementById("announcer").textContent = news.join(" ");
};

const refresh = async () => {
  const [answer, page] = await ask(location.href);
  if (answer.status === 404) location.reload();
  for (const region of document.querySelectorAll("[data-live]")) update(region, page.getElementById(region.id) ?? region);
};

// A hidden page holds no connection: browsers allow six to one service.
let stream = null;
const follow = () => {
  stream?.close();
  if (document.hidden) return;
  stream = new EventSource(`/_sandbox/inbox/events?seen=${document.body.dataset.seen}`);
  stream.onopen = () => (document.getElementById("live").textContent = "Live");
  stream.onerror = () => (document.getElementById("live").textContent = "Reconnecting");
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
  const body = new URLSearchParams(new FormData(form, event.submitter));
  const [answer, page] = await ask(form.action, { method: "POST", body }).catch(() => []);
  say(answer?.ok ? "" : (page?.getElementById("problem")?.textContent ?? "The sandbox does not answer. Is it still running?"));
  if (answer?.ok) form.reset();
  await refresh().catch(() => {});
  if (form.closest(".composer")) reply.focus();
});
reply?.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  reply.form.requestSubmit();
});
