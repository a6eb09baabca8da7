// Sources of kernels: unpacked together when the first of them is opened.
let unpacking;
const unpack = async () => {
  const packed = atob(document.getElementById("sources").textContent.trim());
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
};
for (const details of document.querySelectorAll("details.source")) {
  const show = async () => {
    if (!details.open) return;
    const code = details.querySelector("pre > code"), note = details.querySelector(".note");
    try {
      unpacking ??= unpack();
      code.textContent = (await unpacking)[Number(code.dataset.source)];
      code.parentElement.hidden = false;
      note.hidden = true;
    } catch (error) {
      note.textContent += ` (${error.message})`;
    }
    details.removeEventListener("toggle", show);
  };
  details.addEventListener("toggle", show);
}
