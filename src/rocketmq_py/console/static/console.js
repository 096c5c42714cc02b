"use strict";
// Keys: "/" goes to the search field, "g" and then a letter to a page.
let afterG = false;
document.addEventListener("keydown", (event) => {
  const at = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName)) return;
  if (event.key === "/") { event.preventDefault(); document.getElementById("q").focus(); }
  const help = document.getElementById("help");
  if (event.key === "?" && help) { help.open ? help.close() : help.showModal(); return; }
  const pages = { t: "/topics", g: "/groups", c: "/" };
  if (afterG && pages[event.key]) { afterG = false; location.assign(document.body.dataset.base + pages[event.key]); return; }
  afterG = event.key === "g";
});
