// The order of search results: pages whose title has the words, and recipes, before proofs and results.
const PLACES = [["docs/recipes/", 20], ["docs/proofs/", -10], ["docs/intervals/", -10], ["validation/", -10], ["docs/generated/", 0], ["docs/", 5]];

var Scorer = {
  score: ([docname, title, , , score]) => {
    const asked = (new URLSearchParams(window.location.search).get("q") || "").toLowerCase().split(/\s+/);
    const named = asked.filter((word) => word.length > 2 && title.toLowerCase().includes(word)).length;
    const place = PLACES.find(([folder]) => docname.startsWith(folder));
    return score + 10 * named + (place ? place[1] : 0);
  },
  // As in Sphinx:
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
