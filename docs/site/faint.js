// The first texts of a page whose contrast is below that of WCAG 2.1, level AA: 4.5, and 3 where letters are large.
(() => {
  const numbers = colour => colour.match(/[\d.]+/g).map(Number);
  const light = colour => numbers(colour).slice(0, 3)
    .map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
        const colour = getComputedStyle(e).backgroundColor, alpha = numbers(colour)[3];
        if (alpha === undefined || alpha > 0.5) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const found = new Set(), texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text; (text = texts.nextNode()); ) {
    const e = text.parentElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
    if (!text.data.trim() || !e.checkVisibility({checkVisibilityCSS: true}) || box.width < 2) continue;
    if (e.closest(".skip-link, button") || !e.closest("main, header, footer, nav")) continue;
    const [a, b] = [light(style.color), light(behind(e))].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) found.add(`${text.data.trim().slice(0, 30)} (${ratio.toFixed(1)})`);
  }
  return [...found].slice(0, 5);
})()
