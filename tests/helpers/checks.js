"use strict";
// What the tests ask of a page: text that is cut off, text over text, small type, and figures that leave their card empty.
const checks = {
  // Text that leaves the window, its own box or its figure.
  clipped: () => [...document.querySelectorAll('h1,h2,h3,h4,p,li,button,label,legend,summary,td,th,svg text')].filter((one) => {
  const box = one.getBoundingClientRect();
  if (!box.width || !one.textContent.trim() || one.closest('.skip, .scroll, .vg-tooltip, .strip')) return false;
  if (one.closest('svg')) { const outer = one.closest('svg').getBoundingClientRect();
    return box.left < outer.left - 2 || box.right > outer.right + 2 || box.top < outer.top - 2 || box.bottom > outer.bottom + 2; }
  return box.left < -1 || box.right > innerWidth + 1 || one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== 'inline';
}).map((one) => one.tagName + ': ' + one.textContent.slice(0, 60)),
  overlapping: () => { const found = [];
  for (const svg of document.querySelectorAll('.canvas svg, #controls, .tile, .ladder, .film-controls, figcaption')) {
    const boxes = [...svg.querySelectorAll('text, legend, label, .note, output, .tile > p, summary > *, figcaption > p')].filter((one) => one.textContent.trim() && getComputedStyle(one).opacity !== '0' && one.getBoundingClientRect().width)
      .map((one) => [one.textContent, one.getBoundingClientRect()]);
    for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
      const [a, b] = [boxes[i][1], boxes[j][1]];
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left), high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 2 && high > 4) found.push(svg.getAttribute('aria-label') + ': ' + boxes[i][0] + ' / ' + boxes[j][0]);
    } }
  return found; },
  small: () => [...document.querySelectorAll('body *')].filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())
  && !['SCRIPT', 'STYLE'].includes(one.tagName) && one.getBoundingClientRect().width && parseFloat(getComputedStyle(one).fontSize) < 11.99)
  .map((one) => one.tagName + ': ' + one.textContent.slice(0, 40)),
  // Panels that take less than 85% of the inner width of their card, those of one row together.
  narrow: () => [...document.querySelectorAll('figure')].map((one) => {
  const style = getComputedStyle(one), inner = one.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  const rows = new Map();
  for (const panel of one.querySelectorAll('.panel')) { const box = panel.querySelector('.canvas svg').getBoundingClientRect(), top = Math.round(panel.getBoundingClientRect().top);
    const [left, right] = rows.get(top) || [box.left, box.right]; rows.set(top, [Math.min(left, box.left), Math.max(right, box.right)]); }
  return [one.id, Math.max(...[...rows.values()].map(([left, right]) => right - left)) / inner]; }).filter(([, share]) => share < 0.85),
};
