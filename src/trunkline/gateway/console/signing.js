// Signing in to a server, in a window of its provider.
import { api, part } from "./api.js";
import { say, webAddress } from "./ui.js";

/** Open the provider's page and wait until it is done; gives true when signed in. */
export async function signIn(server) {
  const begun = await api("POST", `servers/${part(server)}/login`);
  if (!begun.url) { say(`${server} needs no sign-in now.`); return true; }
  const address = webAddress(begun.url);
  if (!address) throw new Error("The provider's address is not one of the web.");
  open(address, "_blank", "noopener,noreferrer");
  say(`Sign in on the page that was opened for ${server}.`);
  for (let tries = 0; tries < 150; tries++) {
    const { state, reason } = await api("GET", `servers/${part(server)}/login?attempt=${part(begun.attempt)}`);
    if (state === "signed-in") { say(`Signed in to ${server}.`); return true; }
    if (state === "failed") throw new Error(`The sign-in at ${server} failed: ${reason}`);
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  return false;
}
