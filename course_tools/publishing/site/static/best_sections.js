// The sections that answer a query best, above what the search finds: by the words of the glossary, of headings and of prose.
// The search itself wants every word on one page; here a word that no section has is passed over.
(function () {
  "use strict";
  const SKIPPED = new Set(("a an and are between by can do does explain explained explanation for from how i in is it its made make " +
    "mean meaning of on or so than that the there this to use used versus vs we what when where which why with work works").split(" "));
  const WEIGHT = { name: 5, heading: 4, lecture: 2, prose: 1 };
  const REVIEW = /Exit quiz|What came of it|^\d* ?Papers|[Dd]ecks?\b/;
  const SHOWN = 3;

  const stem = (word) => (word.length < 5 ? word : word.replace(/(?:ations?|ings?|ions?|ers?|ed|es|al|s|e)$/, (end) => (word.length - end.length < 4 ? end : "")));
  const stems = (text) => text.toLowerCase().replaceAll("√", " sqrt ").replace(/\broots?\b/g, "sqrt").replace(/[_'’]/g, "").split(/[^\p{L}\d]+/u).filter(Boolean).map(stem);

  /** The stems of the words that tell sections apart. */
  const asked = (text) => stems(text).filter((word) => !SKIPPED.has(word));

  /** Words, and neighbours written as one: "heat map" is also "heatmap". */
  const joined = (list) => new Set([...list, ...list.slice(1).map((word, i) => list[i] + word)]);

  /** The sections with the stems of their heading, lecture, prose and glossary names: [{ title, address, says, ... }]. */
  function prepare(sections, terms) {
    const of = new Map();
    for (const [names, says, , place] of terms) {
      const address = "lectures/" + place;
      of.set(address, [...(of.get(address) ?? []), ...names.map((name) => ({ says, stems: asked(name) }))]);
    }
    return sections.map(([title, address, prose]) => {
      const [lecture, heading] = title.includes(" › ") ? title.split(" › ") : [title, title];
      const names = of.get(address) ?? [];
      return { title, address, names, heading: joined(stems(heading)), lecture: new Set(stems(lecture)), prose: new Set(prose.split(" ").map(stem)),
        name: new Set(names.flatMap((each) => [...joined(each.stems)])), review: REVIEW.test(heading) };
    });
  }

  /** Rank prepared sections for a query: each rare word counts more, a whole name of the glossary most. */
  function rank(query, prepared) {
    const words = [...new Set(asked(query))];
    const places = Object.keys(WEIGHT);
    const rarity = new Map(words.map((word) => {
      const n = prepared.filter((section) => places.some((place) => section[place].has(word))).length;
      return [word, n ? Math.log(1 + prepared.length / n) : 0];
    }));
    const known = words.filter((word) => rarity.get(word));
    const worth = (list) => list.reduce((total, word) => total + (rarity.get(word) ?? 0), 0);
    return prepared.map((section) => {
      const found = known.filter((word) => places.some((place) => section[place].has(word)));
      const whole = section.names.filter(({ stems: parts }) => parts.every((part) => known.includes(part)) || known.includes(parts.join("")));
      const best = whole.reduce((a, b) => (b.stems.length > (a?.stems.length ?? 0) ? b : a), null);
      const single = found.reduce((total, word) => total + rarity.get(word) * Math.max(...places.map((place) => (section[place].has(word) ? WEIGHT[place] : 0))), 0);
      const score = (single + (best ? 6 * worth([...joined(best.stems)]) : 0)) * (found.length / Math.max(1, known.length));
      return { title: section.title, address: section.address, says: best?.says ?? "", score: section.review ? score / 2 : score };
    }).filter(({ score }) => score > 0).sort((a, b) => b.score - a.score);
  }

  function show(found) {
    const box = Object.assign(document.createElement("section"), { className: "best-sections" });
    box.append(Object.assign(document.createElement("h2"), { textContent: "Start here" }));
    const list = box.appendChild(document.createElement("ol"));
    for (const { title, address, says } of found) {
      const item = list.appendChild(document.createElement("li"));
      item.append(Object.assign(document.createElement("a"), { href: address, textContent: title }));
      if (says) item.append(Object.assign(document.createElement("p"), { textContent: says }));
    }
    const all = document.getElementById("search-results"), folded = document.createElement("details");
    all.replaceWith(box, folded);
    folded.append(Object.assign(document.createElement("summary"), { textContent: "All pages with these words" }), all);
  }

  document.addEventListener("DOMContentLoaded", function () {
    const query = new URLSearchParams(location.search).get("q");
    if (!query || !document.getElementById("search-results")) return;
    const found = rank(query, prepare(window.COURSE_SECTIONS, window.COURSE_TERMS)).slice(0, SHOWN);
    if (found.length) show(found.filter(({ score }) => score > found[0].score / 3));
  });
  window.courseRank = (query, sections, terms) => rank(query, prepare(sections, terms));
})();
