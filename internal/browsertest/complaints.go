package browsertest

// overflowing lists elements that reach beyond the window.
const overflowing = `(() => {
 const wide = document.documentElement.clientWidth, out = [];
 if (document.documentElement.scrollWidth > wide) out.push('page ' + document.documentElement.scrollWidth);
 for (const e of document.querySelectorAll('body *')) {
  if (e.closest('.skip,.vh,svg,thead')) continue;
  const r = e.getBoundingClientRect();
  if (r.width > 0 && (r.right > wide + 1 || r.left < -1)) out.push(e.tagName + '.' + e.className + ' ' + e.textContent.slice(0, 40));
 }
 return out})()`

// faint lists words whose contrast with what is behind them is below WCAG's 4.5.
const faint = `(() => {
 const rgb = s => (s.match(/[\d.]+/g) || []).map(Number);
 const lum = c => { const f = c.slice(0, 3).map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * f[0] + .7152 * f[1] + .0722 * f[2] };
 const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length == 3 || c[3] > 0) return c } return [255, 255, 255] };
 const out = [];
 for (const e of document.querySelectorAll('body *')) {
  if (![...e.childNodes].some(n => n.nodeType == 3 && n.textContent.trim())) continue;
  if (e.closest('defs,title,desc')) continue;
  const style = getComputedStyle(e), ink = rgb(e.closest('svg') ? style.fill : style.color);
  const a = lum(ink), b = lum(behind(e)), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  if (ratio < 4.5) out.push(ratio.toFixed(2) + ' ' + e.tagName + '.' + (e.className.baseVal ?? e.className) + ' ' + e.textContent.slice(0, 40));
 }
 return out})()`

// clipped lists words of plots that reach beyond their plot's sides.
const clipped = `[...document.querySelectorAll('svg text')].filter(t => {
 const a = t.getBoundingClientRect(), b = t.ownerSVGElement.getBoundingClientRect();
 return a.width > 0 && (a.left < b.left - 1 || a.right > b.right + 1)}).map(t => t.textContent)`

// collided lists neighbouring words of an axis that lie on one another.
const collided = `[...document.querySelectorAll('svg.axis')].flatMap(s => {
 const r = [...s.querySelectorAll('text')].map(t => [t.getBoundingClientRect(), t.textContent]);
 return r.flatMap(([a, x], i) => r.slice(i + 1).filter(([b]) => a.width && b.width && a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom).map(([, y]) => x + ' / ' + y))})`
