"use strict";
// The page of the service: sentences out as JSON, translations in. Text never becomes markup.
const data = JSON.parse(document.getElementById("data").textContent);
const find = (id) => document.getElementById(id);
const [form, text, button, said, answers] =
  ["form", "text", "translate", "said", "answers"].map(find);

find("title").textContent = `${data.model}: ${data.source} to ${data.target}`;
find("source").textContent = data.source;
find("example").textContent =
  `curl ${location.origin}/translate -H 'Content-Type: application/json' \\\n` +
  `  -d '{"text": "…"}'`;

/** Show a line above the answers: what was done, or what went wrong. */
function say(line, wrong = false) {
  said.textContent = line;
  said.classList.toggle("error", wrong);
}

/** Return an element with a class and a text. */
function element(name, kind, content) {
  const made = document.createElement(name);
  made.className = kind;
  made.textContent = content;
  return made;
}

function answer(sentence, translation) {
  const item = document.createElement("li");
  const link = element("a", "attention", "attention");
  link.href = `attention?text=${encodeURIComponent(sentence)}`;
  link.target = "_blank";
  link.rel = "noopener";
  const given = element("div", "given", `${sentence} · score ${translation.score.toFixed(2)} · `);
  given.append(link);
  item.append(element("div", "translation", translation.text), given);
  return item;
}

async function ask(sentences) {
  const begin = performance.now();
  const response = await fetch("translate", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ text: sentences }),
  });
  const is_json = response.headers.get("Content-Type") === "application/json";
  const found = is_json ? await response.json() : { error: `${response.status}, try again` };
  if (!response.ok) throw new Error(found.error);
  answers.replaceChildren(
    ...found.translations.map((translation, i) => answer(sentences[i], translation)));
  say(`${((performance.now() - begin) / 1000).toFixed(2)} s`);
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const sentences = text.value.split("\n").map((line) => line.trim()).filter(Boolean);
  if (!sentences.length || button.disabled) return;
  button.disabled = true;
  say("translating …");
  try {
    await ask(sentences);
  } catch (error) {
    // A failed fetch has a message of the browser's own, which names nothing.
    say(error instanceof TypeError ? "the service does not answer" : error.message, true);
  }
  button.disabled = false;
});

text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
