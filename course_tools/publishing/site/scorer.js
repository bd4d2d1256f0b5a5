// Order of what the search finds: sections and exercises of that name first, those of a lecture before those of the library; of
// the rest, lectures first.
Scorer.score = ([page, , , , score, , kind]) =>
  score + (page.startsWith("lectures/") ? 20 : 0) + ((kind === "title" || kind === "index") && !page.startsWith("api/") ? 30 : 0);
