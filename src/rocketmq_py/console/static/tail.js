"use strict";
// Asks for newer messages while the page is open, seen and followed; the server keeps nothing between two looks.
const rows = document.getElementById("tail");
const MOST_ROWS = 200;
function cell(row, text, kind) {
  const made = row.appendChild(document.createElement("td"));
  if (kind) made.className = kind;
  made.textContent = text;
  return made;
}
function rowOf(one) {
  const row = document.createElement("tr");
  cell(row, new Date(one.stored).toISOString().replace("T", " "));
  cell(row, `${one.broker}:${one.queue}`);
  cell(row, one.offset, "n");
  const link = cell(row, "").appendChild(document.createElement("a"));
  const place = `messages/${encodeURIComponent(one.broker)}/${one.queue}/${one.offset}`;
  link.href = location.pathname.replace(/tail$/, place);
  link.textContent = one.msgId;
  cell(row, one.tags || "");
  cell(row, one.keys || "");
  cell(row, one.size, "n");
  cell(row, one.body ?? rows.dataset.hidden, "b");
  return row;
}
async function look() {
  let wait = Number(rows.dataset.seconds);
  const trouble = document.getElementById("trouble");
  if (!document.hidden && document.getElementById("follow").checked) {
    try {
      const query = new URLSearchParams({ tags: rows.dataset.tags, at: rows.dataset.at });
      const answer = await fetch(`${location.pathname}?${query}`, { headers: { accept: "application/json" } });
      const found = await answer.json();
      if (!answer.ok) throw new Error(found.error || answer.status);
      rows.dataset.at = found.at;
      rows.prepend(...found.messages.map(rowOf));
      while (rows.rows.length > MOST_ROWS) rows.deleteRow(-1);
      const skipped = document.getElementById("skipped");
      skipped.textContent = Number(skipped.textContent) + found.skipped;
      trouble.textContent = "";
    } catch (error) { trouble.textContent = error.message; wait *= 5; }
  }
  setTimeout(look, wait * 1000);
}
document.getElementById("newer").hidden = true;
setTimeout(look, Number(rows.dataset.seconds) * 1000);
