// Keeps the page up to date: asks for the same page again, and puts what changed
// in its place. What is open, what has the focus and what is selected stay.
'use strict';
(() => {
  const every = 1000 * Number(document.body.dataset.every);
  const $ = id => document.getElementById(id);
  if (!every) return;
  if (!$('pause')) { setTimeout(() => location.reload(), every); return; } // a page that says why there is none
  let paused = false, etag = '', stamp = new Date(document.body.dataset.stamp), states = document.body.dataset.states, failed = false;

  // names are the summaries of what is open: they have the same words in the next page.
  const name = d => [...d.parentElement.querySelectorAll(':scope > h2, :scope > h3, :scope > details')].indexOf(d) + '|' + d.closest('section')?.getAttribute('aria-labelledby');
  const opened = () => new Set([...document.querySelectorAll('details[open]')].map(name));
  const focused = part => { // the way to what has the focus, so that it has it again
    const e = document.activeElement;
    return part.contains(e) && e.tagName === 'A' ? e.getAttribute('href') : part.contains(e) && e.tagName === 'SUMMARY' ? '#' + name(e.parentElement) : null;
  };
  function swap(part, next) {
    const had = focused(part);
    part.replaceChildren(...next.childNodes);
    if (had === null) return;
    const again = had.startsWith('#') && had.includes('|')
      ? [...part.querySelectorAll('details')].find(d => name(d) === had.slice(1))?.querySelector('summary')
      : [...part.querySelectorAll('a')].find(a => a.getAttribute('href') === had);
    again?.focus({preventScroll: true});
  }
  function show(text) {
    const next = new DOMParser().parseFromString(text, 'text/html');
    if (!next.getElementById('top') || !next.querySelector('main')) throw new Error('the answer is not the page');
    const open = opened();
    swap($('top'), next.getElementById('top'));
    swap(document.querySelector('main'), next.querySelector('main'));
    document.querySelectorAll('details').forEach(d => { d.open = open.has(name(d)); });
    $('when').textContent = next.getElementById('when').textContent;
    document.title = next.title;
    stamp = new Date(next.body.dataset.stamp);
    if (next.body.dataset.states !== states) {
      states = next.body.dataset.states;
      $('news').textContent = 'The verdict changed: ' + states;
    }
  }
  async function ask() {
    const selected = !getSelection().isCollapsed;
    if (paused || document.hidden || selected) return;
    try {
      const answer = await fetch(location.href, {headers: etag ? {'If-None-Match': etag} : {}, cache: 'no-store', signal: AbortSignal.timeout(60000)});
      if (answer.status !== 304) {
        const text = await answer.text();
        if (!answer.ok) throw new Error(new DOMParser().parseFromString(text, 'text/html').querySelector('.bad')?.textContent || 'it answered ' + answer.status);
        show(text);
        etag = answer.headers.get('ETag') || '';
      }
      failed = false;
      $('stale').hidden = true;
    } catch (error) {
      if (!failed) $('stale').textContent = 'This page is not up to date any more: kvwhatif does not answer (' + error.message + '). What is below is what was known before. It is tried again.';
      failed = true;
      $('stale').hidden = false;
    }
  }
  function age() {
    const s = Math.max(0, Math.round((Date.now() - stamp) / 1000));
    $('age').textContent = paused ? 'Updates are paused.' : s < 2 * every / 1000 ? 'Updated every ' + every / 1000 + ' s.' : 'That was ' + (s < 120 ? s + ' s' : Math.round(s / 60) + ' min') + ' ago.';
  }
  $('pause').hidden = false;
  $('pause').addEventListener('click', () => {
    paused = !paused;
    $('pause').textContent = paused ? 'Go on updating' : 'Pause updates';
    age();
    ask();
  });
  setInterval(ask, every);
  setInterval(age, 1000);
  document.addEventListener('visibilitychange', ask);
  age();
})();
