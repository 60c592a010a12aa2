// A button that copies the input of an example: lines after prompts without the prompts, or all lines where there is no
// prompt. What is printed is not copied. This is a block, as the names of other scripts are here too.
{
  const INPUT = /^(?:>>>|\.\.\.|\$)(?: |$)/;
  const PRINTED = ".highlight-text, .highlight-none, .sphx-glr-script-out";

  const readInput = (text) => {
    const lines = text.replace(/\n+$/, "").split("\n");
    const prompted = lines.filter((line) => INPUT.test(line));
    return (prompted.length ? prompted.map((line) => line.replace(INPUT, "")) : lines).join("\n") + "\n";
  };

  // Pages that are read as files have no clipboard of their own.
  const copyText = async (text) => {
    if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  };

  document.addEventListener("DOMContentLoaded", () => {
    for (const pre of document.querySelectorAll(".bd-article .highlight pre")) {
      if (pre.closest(PRINTED)) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy-input";
      button.textContent = "Copy";
      button.setAttribute("aria-label", "Copy the code");
      button.addEventListener("click", async () => {
        await copyText(readInput(pre.textContent));
        button.textContent = "Copied";
        setTimeout(() => (button.textContent = "Copy"), 1500);
      });
      pre.parentElement.append(button);
    }
  });
}
