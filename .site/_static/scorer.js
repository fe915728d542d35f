/* Of pages that match equally, the search lists the reference and the guides first, and the project's records last. */
const WEIGHTS = {
  reference: 6, "java-names": 5, howto: 4, settings: 4, errors: 2, tutorial: -4, architecture: -8, changelog: -16, decisions: -16,
};
var Scorer = {
  score: ([page, , , , score]) => score + (WEIGHTS[page.split("/")[0]] ?? 0),
  // Sphinx' own weights
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
