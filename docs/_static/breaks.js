// Names of more than 18 letters may break after a dot, a slash, an underscore, or between the words of CamelCase.
// A block, as the names of other scripts are here too.
{
  const LONGEST = 18;
  const PLACES = /(?<=[a-z0-9])(?=[A-Z])|(?<=[./_=(])(?=\w)/;
  const NAMES = "h1, dt.sig, td code, th code, .bd-sidebar-primary a, .prev-next-title, .breadcrumb-item";

  const addBreaks = (root) => {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode()) texts.push(walker.currentNode);
    for (const text of texts.filter(({ data }) => data.trim().length > LONGEST)) {
      const parts = text.data.split(PLACES);
      text.replaceWith(...parts.flatMap((part, i) => (i ? [document.createElement("wbr"), part] : [part])));
    }
  };

  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll(NAMES).forEach(addBreaks));
}
