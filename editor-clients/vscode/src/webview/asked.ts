/** Asked: permissions and questions, as elements with what decides them. */

import type { Decision } from '../protocol.ts';
import type { ApprovalItem, QuestionItem } from '../view.ts';
import { button, el, icon } from './dom.ts';
import { wordsInput } from './kept_words.ts';
import { codeBlock, markdown } from './markdown.ts';
import { post } from './page.ts';

const DECIDED: Record<string, string> = {
  allowedOnce: 'Allowed',
  allowedSession: 'Allowed for this session',
  rejected: 'Rejected',
  cancelled: 'Cancelled',
  unavailable: 'Nobody was there to ask',
};

export function drawApproval(asked: ApprovalItem): HTMLElement {
  const effects = asked.effects.map((effect) => {
    const [, kind = '', detail = effect] = /^(\w+) (.*)$/s.exec(effect) ?? [];
    return kind === 'command'
      ? codeBlock(detail, 'bash')
      : el('p', { class: 'effect' }, el('strong', {}, kind), ` ${detail}`);
  });
  if (asked.outcome !== undefined) {
    const words = `${DECIDED[asked.outcome] ?? asked.outcome}${asked.comment ? `: ${asked.comment}` : ''}`;
    const head = el('summary', {}, icon('shield'), el('span', {}, `${asked.tool}: ${words}`));
    return el('details', { class: 'approval decided', 'data-fold': asked.id }, head, ...effects);
  }
  const comment = wordsInput(asked.id, 'Words for the agent, if you reject');
  const decide = (decision: Decision) => () =>
    post({
      kind: 'approve',
      approval: asked.id,
      decision,
      ...(comment.value.trim() ? { comment: comment.value.trim() } : {}),
    });
  return el(
    'div',
    {
      class: 'approval waits',
      role: 'group',
      'aria-label': `May ${asked.tool} run?`,
      'data-since': performance.now(),
    },
    el('p', { class: 'lead' }, icon('shield'), `May ${asked.tool} run?`),
    ...effects,
    asked.reason !== undefined && el('p', { class: 'detail' }, asked.reason),
    comment,
    el(
      'div',
      { class: 'actions' },
      button('Reject', decide('reject'), { class: 'secondary', key: 'reject' }),
      button('Allow for Session', decide('allowSession'), { class: 'secondary', key: 'allowSession' }),
      button('Allow', decide('allowOnce'), { class: 'primary', key: 'allowOnce' }),
    ),
  );
}

export function drawQuestion(asked: QuestionItem): HTMLElement {
  const body = el('div', { class: 'markdown' });
  body.append(markdown(asked.text));
  if (asked.closed) {
    return el(
      'div',
      { class: 'question decided' },
      body,
      el('p', { class: 'detail' }, asked.answer === undefined ? 'Not answered' : `You: ${asked.answer}`),
    );
  }
  const answer = (text: string) => post({ kind: 'answer', question: asked.id, answer: text });
  const choices = asked.options.map((option) => button(option, () => answer(option), { class: 'secondary' }));
  const input = wordsInput(asked.id, 'Your answer');
  const submit = (event: Event) => {
    event.preventDefault();
    if (input.value.trim()) answer(input.value.trim());
  };
  return el(
    'div',
    { class: 'question waits', role: 'group', 'aria-label': 'The agent has a question' },
    el('p', { class: 'lead' }, icon('question'), 'The agent asks'),
    body,
    choices.length > 0 && el('div', { class: 'actions' }, ...choices),
    asked.freeText &&
      el(
        'form',
        { class: 'actions', onsubmit: submit },
        input,
        el('button', { type: 'submit', class: 'primary' }, 'Answer'),
      ),
  );
}
