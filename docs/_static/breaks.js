// Long names may break after a dot, a slash, an underscore, or between the words of CamelCase: in titles all names, and
// elsewhere those of more than 18 letters. This is a block, as the names of other scripts are here too.
{
  const LONGEST = 18;
  const PLACES = /(?<=[a-z0-9])(?=[A-Z])|(?<=[/_=]|\w\()(?=\w)|(?<=\.)(?=\w{4})/;
  const TITLES = "h1, .prev-next-title";
  const OTHERS = "dt.sig, td, th, .bd-sidebar-primary a, .breadcrumb-item";

  const splitName = (name, longest) =>
    name.length > longest ? name.split(PLACES).flatMap((part, i) => (i ? [document.createElement("wbr"), part] : [part])) : [name];

  const addBreaks = (root, longest) => {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode()) texts.push(walker.currentNode);
    for (const text of texts) {
      const parts = text.data.split(/(\s+)/).flatMap((name) => splitName(name, longest));
      if (parts.some((part) => part instanceof Node)) text.replaceWith(...parts);
    }
  };

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll(TITLES).forEach((root) => addBreaks(root, 0));
    document.querySelectorAll(OTHERS).forEach((root) => addBreaks(root, LONGEST));
  });
}
