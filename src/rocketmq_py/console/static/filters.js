"use strict";
// Keeps named filters of a topic in this browser: what stands in the address, but for the place in a long list.
const STORE = `rocketmq filters ${location.pathname}`;
const LEFT_OUT = ["left", "format", "lang"];
const MOST = 50;
function read() {
  try {
    const found = JSON.parse(localStorage.getItem(STORE) || "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one.name === "string" && typeof one.query === "string") : [];
  } catch { return []; }
}
function write(filters) { localStorage.setItem(STORE, JSON.stringify(filters)); show(); }
function show() {
  const list = document.getElementById("saved");
  list.replaceChildren(...read().map((one) => {
    const item = document.createElement("li");
    const link = item.appendChild(document.createElement("a"));
    link.href = `${location.pathname}?${new URLSearchParams(one.query)}`;
    link.textContent = one.name;
    const remove = item.appendChild(document.createElement("button"));
    remove.type = "button";
    remove.textContent = list.dataset.delete;
    remove.addEventListener("click", () => write(read().filter((other) => other.name !== one.name)));
    return item;
  }));
}
const form = document.getElementById("save");
form.addEventListener("submit", (event) => {
  event.preventDefault();
  const name = document.getElementById("filter").value.trim();
  const query = new URLSearchParams(location.search);
  for (const [key, value] of [...query]) if (!value || LEFT_OUT.includes(key)) query.delete(key);
  if (name) write([...read().filter((one) => one.name !== name), { name, query: query.toString() }].slice(-MOST));
});
form.hidden = false;
show();
