// Order of what the search finds: sections and exercises of that name first; of the rest, lectures first.
Scorer.score = ([page, , , , score, , kind]) =>
  score + (kind === "title" || kind === "index" ? 30 : 0) + (page.startsWith("lectures/") ? 20 : 0);
