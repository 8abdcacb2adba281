// A real authorization server (oidc-provider), and a server of tools that takes its tokens and nothing else.
// Arguments: the folder of packages, the life of an access token in seconds. Says its two ports, and ends with its input.
import { createServer } from 'node:http';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [packages, life] = process.argv.slice(2);
console.warn = console.info = () => {};
const { Provider } = await import(pathToFileURL(join(packages, 'oidc-provider', 'lib', 'index.js')));

const listen = (server) => new Promise((done) => server.listen(0, '127.0.0.1', () => done(server.address().port)));
const asServer = createServer((request, response) => oidc.callback()(request, response));
const tools = createServer((request, response) => answer(request, response));
const [asPort, toolsPort] = [await listen(asServer), await listen(tools)];
const issuer = `http://127.0.0.1:${asPort}`;
const resource = `http://127.0.0.1:${toolsPort}/mcp`;
const documents = new Map();
const log = [];

const oidc = new Provider(issuer, {
  clients: [],
  // Where documents about clients are: what tests put there, since their https names exist nowhere.
  fetch: async (url, options) => {
    const { origin } = new URL(url);
    return fetch(String(url).replace(origin, documents.get(origin) ?? origin), { headers: options.headers });
  },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, name: `${id} of the test`, email: `${id}@example.org` }) }),
  claims: { openid: ['sub'], profile: ['name'], email: ['email'] },
  scopes: ['openid', 'offline_access', 'profile', 'email'],
  conformIdTokenClaims: false,
  rotateRefreshToken: true,
  issueRefreshToken: async (_, client, code) => client.grantTypeAllowed('refresh_token') && code.scopes.has('offline_access'),
  ttl: { AccessToken: Number(life), Grant: 86400, IdToken: 3600, Interaction: 3600, Session: 86400, RefreshToken: 86400 },
  pkce: { required: () => true },
  features: {
    clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
    devInteractions: { enabled: true },
    introspection: { enabled: false },
    registration: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, indicator) => {
        if (indicator !== resource) throw new Error('unknown resource');
        return { scope: 'read write', audience: resource, accessTokenTTL: Number(life), accessTokenFormat: 'opaque' };
      },
    },
  },
});
oidc.on('grant.success', (context) => log.push(['granted', context.oidc.params.grant_type, context.oidc.client.clientId]));
oidc.on('grant.error', (context, error) => log.push(['refused', context.oidc.params?.grant_type, error.error]));
oidc.on('grant.revoked', () => log.push(['revoked', 'family', '']));
oidc.on('registration_create.success', (context, client) => log.push(['registered', '', client.clientId]));
oidc.on('server_error', (_, error) => log.push(['error', '', String(error)]));

async function answer(request, response) {
  const say = (status, content, headers = {}) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify(content));
  };
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = chunks.length ? JSON.parse(Buffer.concat(chunks)) : {};
  const path = request.url.split('?')[0];
  if (path === '/.well-known/oauth-protected-resource/mcp') {
    return say(200, { resource, authorization_servers: [issuer], scopes_supported: ['read'] });
  }
  if (path === '/log') return say(200, log);
  if (path === '/documents') return say(200, documents.set(body.origin, body.target).size);
  const described = `resource_metadata="${resource.replace('/mcp', '/.well-known/oauth-protected-resource/mcp')}"`;
  const sent = (request.headers.authorization ?? '').replace(/^Bearer /, '');
  const token = sent ? await oidc.AccessToken.find(sent) : undefined;
  if (!token || token.aud !== resource) {
    return say(401, {}, { 'www-authenticate': `Bearer ${described}, scope="openid profile read"` });
  }
  const scopes = token.scope.split(' ');
  if (body.method === 'tools/call' && body.params.name === 'write' && !scopes.includes('write')) {
    const wanted = `error="insufficient_scope", scope="write", ${described}`;
    return say(403, {}, { 'www-authenticate': `Bearer ${wanted}` });
  }
  const rest = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
  const results = {
    'server/discover': {
      supportedVersions: ['2026-07-28'], capabilities: { tools: {} }, serverInfo: { name: 'protected', version: '1' },
    },
    'tools/list': { tools: ['whoami', 'write'].map((name) => ({ name, inputSchema: { type: 'object' } })) },
    'tools/call': { content: [{ type: 'text', text: token.accountId }] },
  };
  return say(200, { jsonrpc: '2.0', id: body.id, result: { ...rest, ...results[body.method] } });
}

console.log(JSON.stringify({ issuer, resource }));
process.stdin.resume().on('end', () => process.exit(0)).on('close', () => process.exit(0));
