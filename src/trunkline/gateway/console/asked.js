// Questions of tools and stages, answered in place.
import { html, useRef, useState } from "./vendor/preact.js";
import { Button, Link, webAddress } from "./ui.js";
import { Fields, startOf } from "./form.js";

/** All that one call asks; `onAnswer` gets an answer for each of their names. */
export function Asked({ questions, onAnswer }) {
  const names = Object.keys(questions);
  const [values, set] = useState(() => Object.fromEntries(names.map((name) => [name, startOf(schemaOf(questions[name])) ?? {}])));
  const form = useRef(null);
  const answer = (action) => {
    if (action === "accept" && !form.current.reportValidity()) return undefined;
    const each = (name) => ({ action, ...(action === "accept" && !questions[name].params?.url && { content: values[name] }) });
    return onAnswer(Object.fromEntries(names.map((name) => [name, each(name)])));
  };
  return html`<form class="asked" ref=${form} onSubmit=${(event) => { event.preventDefault(); answer("accept"); }}>
    ${names.map((name, index) => html`<${Question} key=${name} params=${questions[name].params ?? {}} id=${`q${index}`} value=${values[name]} onChange=${(next) => set({ ...values, [name]: next })} />`)}
    <div class="actions start"><${Button} kind="primary" type="submit">Answer<//><${Button} onClick=${() => answer("decline")}>Decline<//><${Button} kind="plain" onClick=${() => answer("cancel")}>Cancel the call<//></div>
  </form>`;
}

const schemaOf = (question) => question.params?.requestedSchema ?? {};

/** One question: what is asked, and the form or the address it is answered with. */
export function Question({ params, id, value, onChange }) {
  const address = params.url && webAddress(params.url);
  return html`<div class="question"><p class="message">${params.message}</p>
    ${params.url ? html`<p>${address ? html`It is answered at <b>${new URL(address).host}</b>: <${Link} to=${address}>open the page<//>, then come back.` : "Its address is not one of the web."}</p>`
      : html`<${Fields} schema=${params.requestedSchema ?? {}} value=${value} onChange=${onChange} id=${id} />`}
  </div>`;
}
