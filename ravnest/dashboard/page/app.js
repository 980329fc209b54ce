// Keeps the page equal to what the server says, and carries the owner's wishes to it.

import { find, number, set_text } from "/dom.js";
import { Chart } from "/chart.js";
import { in_order, is_over, show_facts, show_job, show_jobs, show_lines, show_providers } from "/view.js";

const DETAILS_EVERY_MS = 1000;
const SILENCE_MS = 15000;
const SLOWEST_RETRY_MS = 10000;

let state = null;
let session = { is_owner: false, since: 0 };
let chosen = Number(new URLSearchParams(location.hash.slice(1)).get("job")) || null;
let details = null; // of the chosen job
let details_at = 0;
let is_fetching = false;

const loss = new Chart(find("loss"), "Loss");
const accuracy = new Chart(find("accuracy"), "Accuracy", (value) => `${number(value)} %`);

// ---- showing

function chosen_job() {
  const jobs = state?.jobs ?? [];
  return jobs.find((job) => job.id === chosen) ?? in_order(jobs)[0];
}

function show() {
  if (!state) {
    return;
  }
  const job = chosen_job();
  document.title = job ? `${job.name} ${job.phase} · Ravnest` : "Ravnest";
  const server = `${location.hostname}:${state.server.port}`;
  document.querySelectorAll(".origin").forEach((node) => set_text(node, server));
  show_facts(state, session.since);
  show_jobs(state.jobs, job?.id, choose);
  show_providers(state.providers, state.jobs, wish_for_provider);
  show_lines(find("lines"), state.lines);
  find("job").hidden = !job;
  find("main").classList.toggle("without-job", !job);
  if (job) {
    show_job(job, details?.id === job.id ? details : null, state.providers);
  }
}

function show_charts() {
  const job = chosen_job();
  const curve = details?.curve ?? [];
  find("loss-figure").hidden = curve.length === 0 && job !== undefined && is_over(job);
  loss.draw(curve);
  find("accuracy-figure").hidden = !details?.accuracy?.length;
  accuracy.draw(details?.accuracy ?? []);
}

function choose(id) {
  chosen = id;
  details = null;
  details_at = 0;
  history.replaceState(null, "", `#job=${id}`);
  show();
  show_charts();
  fetch_details();
}

async function fetch_details() {
  const job = chosen_job();
  if (!job || is_fetching || Date.now() - details_at < DETAILS_EVERY_MS) {
    return;
  }
  is_fetching = true;
  details_at = Date.now();
  try {
    const answer = await fetch(`/api/jobs/${job.id}`);
    const told = answer.ok ? await answer.json() : null;
    if (told && told.id === chosen_job()?.id) {
      details = told;
      show();
      show_charts();
    }
  } catch {
    // The connection is gone; that is noticed, and told, where events arrive.
  } finally {
    is_fetching = false;
  }
  if (chosen_job()?.id !== job.id) {
    fetch_details();
  }
}

// ---- listening

let events = null;
let retry_ms = 500;
let silence = 0;

function listen() {
  events?.close();
  events = new EventSource("/api/events");
  events.addEventListener("open", fetch_session);
  events.addEventListener("state", (event) => {
    state = JSON.parse(event.data);
    retry_ms = 500;
    on_heard();
    show();
    fetch_details();
  });
  events.addEventListener("error", on_lost);
}

function on_heard() {
  find("banner").hidden = true;
  document.body.classList.remove("stale");
  clearTimeout(silence);
  silence = setTimeout(check_connection, SILENCE_MS);
}

function on_lost() {
  events.close();
  clearTimeout(silence);
  set_text(find("banner"), "The connection to the server is lost. Trying again…");
  find("banner").hidden = false;
  document.body.classList.toggle("stale", state !== null);
  setTimeout(listen, retry_ms);
  retry_ms = Math.min(retry_ms * 2, SLOWEST_RETRY_MS);
}

// Nothing was said for a while: because nothing happened, or because nobody is there?
async function check_connection() {
  try {
    await fetch("/healthz", { signal: AbortSignal.timeout(5000) });
    on_heard();
  } catch {
    on_lost();
  }
}

// ---- the owner's wishes

async function fetch_session() {
  try {
    session = await (await fetch("/api/session")).json();
  } catch {
    return;
  }
  document.documentElement.toggleAttribute("data-owner", session.is_owner);
  set_text(find("account"), session.is_owner ? "Log out" : "Log in");
  show();
}

function as_sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// Why not, as a sentence; empty: done.
async function post(path, body = {}) {
  try {
    const answer = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    if (answer.ok) {
      return "";
    }
    if (answer.status === 401) {
      fetch_session();
    }
    return as_sentence((await answer.json()).error);
  } catch {
    return "The server cannot be reached.";
  }
}

let toast = 0;

function tell(sentence) {
  set_text(find("toast"), sentence);
  find("toast").hidden = sentence === "";
  clearTimeout(toast);
  toast = setTimeout(() => tell(""), 8000);
}

function confirm(question, yes) {
  const dialog = find("confirm");
  set_text(find("confirm-text"), question);
  set_text(find("confirm-yes"), yes);
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

async function wish_for_provider(id, name, kind) {
  if (kind === "remove" && !(await confirm(`Remove ${name}? It must enrol anew to come back.`, "Remove"))) {
    return;
  }
  tell(await post(`/api/providers/${encodeURIComponent(id)}/${kind}`));
}

async function wish_for_job(kind, question, yes) {
  const job = chosen_job();
  if (job && (await confirm(question(job.name), yes))) {
    tell(await post(`/api/jobs/${job.id}/${kind}`));
  }
}

find("cancel").addEventListener("click", () =>
  wish_for_job("cancel", (name) => `Cancel ${name}? It cannot go on afterwards.`, "Cancel it"),
);
find("forget").addEventListener("click", () =>
  wish_for_job("forget", (name) => `Forget ${name}? Its results are deleted.`, "Forget it"),
);

find("account").addEventListener("click", async () => {
  if (session.is_owner) {
    tell(await post("/api/logout"));
    fetch_session();
  } else {
    set_text(find("login-fault"), "");
    find("login").showModal();
  }
});
find("login-close").addEventListener("click", () => find("login").close());
find("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const fault = await post("/api/login", { secret: find("secret").value });
  find("secret").value = "";
  set_text(find("login-fault"), fault);
  if (fault === "") {
    find("login").close();
    fetch_session();
  }
});

// ---- looks

const THEMES = ["auto", "light", "dark"];

function set_theme(theme) {
  const known = THEMES.includes(theme) ? theme : "auto";
  document.documentElement.dataset.theme = known;
  set_text(find("theme"), `Theme: ${known}`);
  localStorage.setItem("theme", known);
}

find("theme").addEventListener("click", () => {
  const now = THEMES.indexOf(document.documentElement.dataset.theme);
  set_theme(THEMES[(now + 1) % THEMES.length]);
});
find("log").addEventListener("change", (event) => loss.set_log(event.target.checked));
new ResizeObserver(() => {
  show();
  show_charts();
}).observe(find("job"));

set_theme(localStorage.getItem("theme"));
listen();
