/* The modes `sessions`: every lane connects, binds, searches, unbinds and closes, again and again.
 *
 * Part of ldapload.c, which has the rest. With -DTLS (and -lssl -lcrypto) sessions may be under TLS: -x new makes a full
 * handshake each time, -x resumed offers the ticket of the last of those. The
 * server's certificate is not verified, its
 * signature is, as the protocol has it. `resumed` in the results is the share of handshakes that the server resumed.
 */
#ifdef TLS
#include <openssl/err.h>
#include <openssl/ssl.h>
#else
typedef void SSL;
typedef void SSL_SESSION;
#endif

enum step { SHAKING, BINDING, SEARCHING };
typedef struct {
  int fd; SSL *ssl; SSL_SESSION *ticket;
  enum step step; double began; uint32_t user; int entries;
  unsigned char in[1 << 16]; size_t have;
} session;

static enum { PLAIN, NEW, RESUMED } layer = PLAIN;
static session *sessions; static int sessionport; static uint64_t resumed;

#ifdef TLS
static SSL_CTX *tls;
static void preparetls(void) {
  tls = SSL_CTX_new(TLS_client_method());
  /* With OpenSSL's cache a ticket would serve once, and a server need not give another one when it resumes. */
  SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
}
/* Tickets come behind the handshake, with the first response. */
static void keepticket(session *s) {
  SSL_SESSION *now = SSL_get1_session(s->ssl);
  if (!now || !SSL_SESSION_is_resumable(now) || SSL_session_reused(s->ssl)) SSL_SESSION_free(now);
  else { SSL_SESSION_free(s->ticket); s->ticket = now; }
}
static void begintls(session *s) {
  s->ssl = SSL_new(tls);
  SSL_set_fd(s->ssl, s->fd); SSL_set_connect_state(s->ssl);
  if (s->ticket) SSL_set_session(s->ssl, s->ticket);
}
/* 1: done; 0: the peer has to say more first. */
static int shake(session *s) {
  int k = SSL_do_handshake(s->ssl);
  if (k != 1 && SSL_get_error(s->ssl, k) == SSL_ERROR_WANT_READ) return 0;
  if (k != 1) { ERR_print_errors_fp(stderr); fprintf(stderr, "TLS handshake failed\n"); exit(1); }
  resumed += SSL_session_reused(s->ssl);
  return 1;
}
static void endtls(session *s) {
  if (layer == RESUMED) keepticket(s);
  SSL_shutdown(s->ssl); SSL_free(s->ssl); s->ssl = NULL;
}
static ssize_t taketls(session *s) {
  int k = SSL_read(s->ssl, s->in + s->have, sizeof s->in - s->have);
  if (k > 0) return k;
  return SSL_get_error(s->ssl, k) == SSL_ERROR_WANT_READ ? 0 : -1;
}
static ssize_t givetls(session *s, const buf *m) { return SSL_write(s->ssl, m->b, m->n); }
#else
static void preparetls(void) { fprintf(stderr, "compiled without TLS: -DTLS -lssl -lcrypto\n"); exit(2); }
static void begintls(session *s) { (void)s; }
static int shake(session *s) { (void)s; return 1; }
static void endtls(session *s) { (void)s; }
static ssize_t taketls(session *s) { (void)s; return -1; }
static ssize_t givetls(session *s, const buf *m) { (void)s; (void)m; return -1; }
#endif

static void give(session *s, const buf *m) {
  if ((s->ssl ? givetls(s, m) : send(s->fd, m->b, m->n, MSG_NOSIGNAL)) == (ssize_t)m->n) return;
  perror("send"); exit(1);
}

/* So many bytes; 0: none now, -1: no more. */
static ssize_t take(session *s) {
  if (s->ssl) return taketls(s);
  ssize_t k = recv(s->fd, s->in + s->have, sizeof s->in - s->have, MSG_DONTWAIT);
  return k > 0 ? k : k < 0 && errno == EAGAIN ? 0 : -1;
}

static void ask(session *s, uint32_t id, enum mode kind) {
  buf m = {.n = 0};
  mkrequest(&m, id, kind, s->user);
  give(s, &m);
}

static void shakehands(session *s) {
  if (s->ssl && !shake(s)) return;
  s->step = BINDING; ask(s, 1, BIND);
}

static void beginsession(int ep, int i) {
  session *s = &sessions[i];
  s->began = now(); s->user = lowest + rnd() % (users - lowest); s->step = SHAKING; s->entries = 0; s->have = 0;
  s->fd = tcp(sessionport);
  if (layer != PLAIN) { fcntl(s->fd, F_SETFL, O_NONBLOCK); begintls(s); }
  struct epoll_event e = {.events = EPOLLIN, .data.u32 = i}; epoll_ctl(ep, EPOLL_CTL_ADD, s->fd, &e);
  shakehands(s);
}

/* Counts the session, and begins the next one. `code`: 0, or what went wrong. */
static void endsession(int ep, int i, int code) {
  session *s = &sessions[i];
  static const unsigned char unbind[] = {0x30, 5, 2, 1, 3, 0x42, 0};
  if (code == 0) { buf m = {.n = 0}; putraw(&m, unbind, sizeof unbind); give(s, &m); }
  if (s->ssl) endtls(s);
  close(s->fd);
  if (code == 0) done++; else { errors++; lasterr = code; }
  if (nlat < caplat) lat[nlat++] = now() - s->began;
  beginsession(ep, i);
}

/* One message of the server; 1 when the session has ended over it. */
static int answered(int ep, int i, const unsigned char *p, size_t len) {
  session *s = &sessions[i];
  size_t il, ih = hdr(p, len, &il), bl, bh = hdr(p + ih + il, len - ih - il, &bl);
  const unsigned char *op = p + ih + il, *q = op + bh;
  int code = q[0] == 10 ? q[2] : -1;
  if (*op == 0x64) { entries++; s->entries++; return 0; }
  if (s->step == BINDING && *op == 0x61 && code == 0) { s->step = SEARCHING; ask(s, 2, SEARCH); return 0; }
  if (s->step == SEARCHING && *op == 0x65 && code == 0 && wantentries >= 0 && s->entries != wantentries) code = -2;
  endsession(ep, i, code);
  return 1;
}

static void sessionreads(int ep, int i) {
  session *s = &sessions[i];
  if (s->step == SHAKING) { shakehands(s); return; }
  for (ssize_t k; (k = take(s)) != 0;) {
    if (k < 0) { endsession(ep, i, -3); return; }
    s->have += k;
    size_t at = 0, len, h;
    while ((h = hdr(s->in + at, s->have - at, &len)) && s->have - at >= h + len) {
      if (answered(ep, i, s->in + at + h, len)) return;
      at += h + len;
    }
    if (at == 0 && s->have == sizeof s->in) { endsession(ep, i, -4); return; } /* an entry longer than the buffer */
    memmove(s->in, s->in + at, s->have - at); s->have -= at;
  }
}

static double runsessions(int port, double secs) {
  int ep = epoll_create1(0);
  sessions = calloc(conns, sizeof *sessions); sessionport = port;
  if (layer != PLAIN) preparetls();
  double t0 = now();
  for (int i = 0; i < conns; i++) beginsession(ep, i);
  struct epoll_event ev[64];
  while (now() - t0 < secs) {
    int n = epoll_wait(ep, ev, 64, 100);
    for (int k = 0; k < n; k++) sessionreads(ep, ev[k].data.u32);
  }
  return now() - t0;
}
