/* ldapload: drives an LDAP server over loopback and counts what comes back.
 *
 *   gcc -O2 -o ldapload ldapload.c        sessions under TLS: -DTLS, and -lssl -lcrypto at the end
 *   ldapload -p PORT [-m MODE] [-c CONNECTIONS] [-d DEPTH] [-t SECONDS] [-n USERS] [-D DN -W PASSWORD]
 *            [-b BASE] [-f DNFMT] [-v VALUEFMT] [-w PASSWORDFMT] [-s FIRST] [-l LOWEST] [-e ENTRIES]
 *            [-a ATTRIBUTE] [-r ATTRIBUTE] [-o ATTRIBUTE=VALUE] [-x new|resumed] [-j]
 *
 * One thread, epoll, requests encoded on the fly: it costs a fraction of a core, so that on a two-core
 * machine the server is what is measured. Every connection keeps DEPTH requests in flight; a request is
 * complete when its final response has arrived. The result code of each is checked and, at depth 1, the
 * number of entries of each search (-e, default 1; -1: any), so that a server that answers nothing, or
 * fails fast, is not mistaken for a fast one. Exit status 1 if anything failed. -j prints JSON.
 *
 * Modes; %u in a format is replaced by a user number drawn uniformly from LOWEST (default 0) up to below USERS:
 *   search   subtree search under BASE for (uid=VALUEFMT), all attributes; -a: another one than uid, -r: this one only
 *   base     base-object search of DNFMT
 *   bind     simple bind as DNFMT with PASSWORDFMT
 *   compare  compare uid with VALUEFMT on DNFMT; -a: another one than uid
 *   modify   replace description on DNFMT                        (bound first as -D/-W)
 *   grow     add the value VALUEFMT to ATTRIBUTE (-a) of DNFMT, numbered from FIRST up        (bound first as -D/-W)
 *   add      add an inetOrgPerson DNFMT with an {SSHA} password, numbered from FIRST up  (bound first as -D/-W)
 *   sub      subtree search under BASE for (cn=VALUEFMT*)
 *   middle   subtree search under BASE for (cn=*VALUEFMT*)
 *   unindexed  subtree search under BASE for (telephoneNumber=+1 555 NNNNNN*), six digits: ten of the people
 *   and      subtree search under BASE for (&(objectClass=person)(uid=VALUEFMT)); -o: another term than the first
 *            one, -r as `search`
 *   mixed    of 100 requests 80 search, 10 bind, 8 modify and 2 add or delete, one after the other
 *            (bound first as -D/-W; the binds go over as many connections of their own)
 *   sessions connect, bind as DNFMT with PASSWORDFMT, search as `search`, unbind and close; a session is one operation;
 *            depth is 1. -x: under TLS (sessions.h)
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef struct { unsigned char b[4096]; size_t n; } buf;

static void putraw(buf *o, const void *p, size_t n) { memcpy(o->b + o->n, p, n); o->n += n; }
static void tlv(buf *o, unsigned char tag, const void *p, size_t n) {
  o->b[o->n++] = tag;
  if (n < 128) o->b[o->n++] = n;
  else if (n < 256) { o->b[o->n++] = 0x81; o->b[o->n++] = n; }
  else { o->b[o->n++] = 0x82; o->b[o->n++] = n >> 8; o->b[o->n++] = n & 255; }
  putraw(o, p, n);
}
static void str(buf *o, unsigned char tag, const char *s) { tlv(o, tag, s, strlen(s)); }
static void sub(buf *o, unsigned char tag, const buf *i) { tlv(o, tag, i->b, i->n); }
static void small(buf *o, unsigned char tag, int v) { unsigned char c = v; tlv(o, tag, &c, 1); }

static void message(buf *out, uint32_t id, unsigned char op, const buf *body) {
  buf m = {.n = 0};
  unsigned char idb[4] = {id >> 24 & 0x7f, id >> 16, id >> 8, id};
  tlv(&m, 2, idb, 4);
  sub(&m, op, body);
  sub(out, 0x30, &m);
}

static char base[512] = "ou=people,dc=example,dc=com";
static char dnfmt[512] = "uid=user.%u,ou=people,dc=example,dc=com";
static char valfmt[256] = "user.%u";
static char pwfmt[256] = "password";
static char attribute[64] = "uid", requested[64] = "", term[600] = "objectClass=person";
static char binddn[512] = "", bindpw[256] = "";
static uint32_t users = 10000, lowest = 0, nextadd = 0;
static enum mode { SEARCH, BASE, BIND, COMPARE, MODIFY, ADD, SUB, MIDDLE, UNINDEXED, AND, MIXED, GROW, SESSIONS, DELETE } mode = SEARCH;
static const char *modes[] = {"search", "base", "bind", "compare", "modify", "add", "sub", "middle", "unindexed", "and", "mixed", "grow", "sessions"};
static int wantentries = 1, json = 0;

static uint64_t rs = 88172645463325252ull;
static uint32_t rnd(void) { rs ^= rs << 13; rs ^= rs >> 7; rs ^= rs << 17; return rs >> 32; }
static void fmt(char *out, size_t n, const char *f, uint32_t u) {
  char *o = out, *end = out + n - 12;
  for (; *f && o < end; f++)
    if (f[0] == '%' && f[1] == 'u') { o += sprintf(o, "%u", u); f++; }
    else *o++ = *f;
  *o = 0;
}

static void mkbind(buf *out, uint32_t id, const char *dn, const char *pw) {
  buf b = {.n = 0};
  small(&b, 2, 3); str(&b, 4, dn); str(&b, 0x80, pw);
  message(out, id, 0x60, &b);
}

/* What the next request of a lane is, and of which user; mixed draws from a fixed run of a hundred. */
static enum mode nextmode(uint32_t turn) {
  if (mode != MIXED) return mode;
  uint32_t k = turn * 37 % 100; /* 37 and 100 have no common factor: the kinds come spread out */
  return k < 80 ? SEARCH : k < 90 ? BIND : k < 98 ? MODIFY : k == 98 ? ADD : DELETE;
}

static void mkrequest(buf *out, uint32_t id, enum mode mode, uint32_t u) {
  char dn[600], val[300], pw[300];
  fmt(dn, sizeof dn, dnfmt, u); fmt(val, sizeof val, valfmt, u); fmt(pw, sizeof pw, pwfmt, u);
  buf b = {.n = 0}, f = {.n = 0}, g = {.n = 0}, h = {.n = 0};
  switch (mode) {
  case SEARCH: case BASE: case SUB: case MIDDLE: case UNINDEXED: case AND:
    str(&b, 4, mode == BASE ? dn : base);
    small(&b, 10, mode == BASE ? 0 : 2); small(&b, 10, 0); small(&b, 2, 0); small(&b, 2, 0); small(&b, 1, 0);
    if (mode == SEARCH) { str(&f, 4, attribute); str(&f, 4, val); sub(&b, 0xa3, &f); }
    else if (mode == SUB) { str(&g, 0x80, val); str(&f, 4, "cn"); sub(&f, 0x30, &g); sub(&b, 0xa4, &f); }
    else if (mode == MIDDLE) { str(&g, 0x81, val); str(&f, 4, "cn"); sub(&f, 0x30, &g); sub(&b, 0xa4, &f); }
    else if (mode == UNINDEXED) {
      char t[32]; snprintf(t, sizeof t, "+1 555 %06u", u / 10);
      str(&g, 0x80, t); str(&f, 4, "telephoneNumber"); sub(&f, 0x30, &g); sub(&b, 0xa4, &f); }
    else if (mode == AND) {
      buf e = {.n = 0};
      char *value = strchr(term, '=');
      tlv(&f, 4, term, value - term); str(&f, 4, value + 1); sub(&g, 0xa3, &f);
      str(&e, 4, "uid"); str(&e, 4, val); sub(&g, 0xa3, &e); sub(&b, 0xa0, &g); }
    else str(&b, 0x87, "objectClass");
    if (*requested) str(&h, 4, requested);
    sub(&b, 0x30, &h);
    message(out, id, 0x63, &b); break;
  case BIND: mkbind(out, id, dn, pw); break;
  case DELETE: {
    buf m = {.n = 0}; unsigned char idb[4] = {id >> 24 & 0x7f, id >> 16, id >> 8, id};
    tlv(&m, 2, idb, 4); str(&m, 0x4a, dn); sub(out, 0x30, &m); break; }
  case MIXED: case SESSIONS: break;
  case COMPARE:
    str(&b, 4, dn); str(&f, 4, attribute); str(&f, 4, val); sub(&b, 0x30, &f); message(out, id, 0x6e, &b); break;
  case MODIFY: case GROW: {
    char d[64]; sprintf(d, "changed %u", rnd());
    buf vals = {.n = 0}, attr = {.n = 0}, chg = {.n = 0}, list = {.n = 0};
    str(&vals, 4, mode == GROW ? val : d); str(&attr, 4, mode == GROW ? attribute : "description"); sub(&attr, 0x31, &vals);
    small(&chg, 10, mode == GROW ? 0 : 2); sub(&chg, 0x30, &attr); sub(&list, 0x30, &chg);
    str(&b, 4, dn); sub(&b, 0x30, &list); message(out, id, 0x66, &b); break; }
  case ADD: {
    buf list = {.n = 0};
    char cn[330], mail[330]; snprintf(cn, sizeof cn, "Common %s", val); snprintf(mail, sizeof mail, "%s@example.com", val);
    struct { const char *n, *v[5]; } at[] = {
      {"objectClass", {"top", "person", "organizationalPerson", "inetOrgPerson", 0}}, {"uid", {val, 0}}, {"cn", {cn, 0}},
      {"sn", {val, 0}}, {"givenName", {"Given", 0}}, {"mail", {mail, 0}}, {"telephoneNumber", {"+1 555 0100", 0}},
      {"userPassword", {"{SSHA}f5AYt2AtdUAyVjbMyeiSJbs5XTRyb3dhbmFkZA==", 0}}, {"description", {"added under load", 0}}};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
      buf v = {.n = 0}, a = {.n = 0};
      for (int k = 0; k < 5 && at[i].v[k]; k++) str(&v, 4, at[i].v[k]);
      str(&a, 4, at[i].n); sub(&a, 0x31, &v); sub(&list, 0x30, &a);
    }
    str(&b, 4, dn); sub(&b, 0x30, &list); message(out, id, 0x68, &b); break; }
  }
}

#define IN (1 << 20)
/* A connection. Under `mixed` every one has a partner that only binds, so that a bind changes nobody's rights. */
typedef struct { int fd; unsigned char *in; size_t have, room; uint32_t entries; unsigned char *out; size_t queued; } conn;
/* DEPTH requests in flight belong to a lane; a slot holds one, and the message ID names the slot. */
typedef struct { uint32_t turn, seq, *added; size_t nadded; } lane;
typedef struct { double sent; enum mode mode; uint32_t user; } slot;
static uint64_t done, errors, entries; static int lasterr = -1;
static double *lat; static size_t nlat, caplat = 1 << 22;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static int conns = 8, depth = 1;
static conn *cs; static lane *lanes; static slot *slots;

#define OUT (1 << 18)
static void flush(conn *c) {
  size_t w = 0;
  while (w < c->queued) {
    ssize_t k = send(c->fd, c->out + w, c->queued - w, 0);
    if (k < 0) { if (errno == EAGAIN) { usleep(50); continue; } perror("send"); exit(1); }
    w += k;
  }
  c->queued = 0;
}

static void request(int li, int si) {
  lane *l = &lanes[li]; slot *s = &slots[li * depth + si];
  s->mode = nextmode(l->turn++);
  if (s->mode == DELETE && l->nadded == 0) s->mode = ADD;
  s->user = s->mode == ADD || s->mode == GROW ? nextadd++ : s->mode == DELETE ? l->added[--l->nadded] : lowest + rnd() % (users - lowest);
  s->sent = now();
  l->seq = l->seq >= 0x7fff0000u / depth - 1 ? 1 : l->seq + 1;
  conn *c = &cs[mode == MIXED && s->mode == BIND ? conns + li : li];
  buf m = {.n = 0};
  mkrequest(&m, l->seq * depth + si, s->mode, s->user);
  if (c->queued + m.n > OUT) flush(c);
  memcpy(c->out + c->queued, m.b, m.n); c->queued += m.n;
}

static int searches(enum mode m) { return m == SEARCH || m == BASE || m == SUB || m == MIDDLE || m == UNINDEXED || m == AND; }

/* Counts one final response, and keeps what mixed's deletes may delete. */
static void finish(conn *c, int li, uint32_t id, int code) {
  slot *s = &slots[li * depth + id % depth];
  int ok = s->mode == COMPARE ? code == 6 : code == 0;
  if (ok && searches(s->mode) && depth == 1 && wantentries >= 0 && (int)c->entries != wantentries) { lasterr = -2; ok = 0; }
  else if (!ok) lasterr = code;
  if (ok) done++; else errors++;
  if (mode == MIXED && s->mode == ADD && ok) {
    lane *l = &lanes[li];
    if (l->nadded % 1024 == 0) l->added = realloc(l->added, (l->nadded + 1024) * sizeof *l->added);
    l->added[l->nadded++] = s->user;
  }
  c->entries = 0;
  if (nlat < caplat) lat[nlat++] = now() - s->sent;
}

static size_t hdr(const unsigned char *p, size_t n, size_t *len) { /* header size, 0 if incomplete */
  if (n < 2) return 0;
  if (p[1] < 128) { *len = p[1]; return 2; }
  size_t k = p[1] & 127; if (k > 4 || n < 2 + k) return 0;
  size_t l = 0; for (size_t i = 0; i < k; i++) l = l << 8 | p[2 + i];
  *len = l; return 2 + k;
}

static int tcp(int port) {
  int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (connect(fd, (void *)&a, sizeof a)) { perror("connect"); exit(1); }
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return fd;
}

static void dial(conn *c, int port, int bindfirst) {
  c->fd = tcp(port); c->in = malloc(c->room = IN); c->out = malloc(OUT);
  if (!bindfirst) return;
  buf m = {.n = 0}; mkbind(&m, 1, binddn, bindpw); if (send(c->fd, m.b, m.n, 0) < 0) { perror("send"); exit(1); }
  unsigned char r[512]; ssize_t n = recv(c->fd, r, sizeof r, 0);
  int at = 0; for (; at + 2 < n; at++) if (r[at] == 0x0a && r[at + 1] == 1) break;
  if (at + 2 >= n || r[at + 2] != 0) { fprintf(stderr, "bind as %s failed\n", binddn); exit(1); }
}

/* Takes what has arrived on connection ci, and sends a new request for each that is answered. */
static void receive(int ci) {
  conn *c = &cs[ci]; int li = ci % conns;
  if (c->have == c->room) c->in = realloc(c->in, c->room *= 2); /* a message as long as a large group */
  ssize_t r = recv(c->fd, c->in + c->have, c->room - c->have, 0);
  if (r <= 0) { fprintf(stderr, "connection closed by the server after %llu operations\n", (unsigned long long)done); exit(1); }
  c->have += r; size_t at = 0, len;
  for (;;) {
    size_t h = hdr(c->in + at, c->have - at, &len);
    if (!h || c->have - at < h + len) break;
    const unsigned char *p = c->in + at + h; size_t il; size_t ih = hdr(p, len, &il);
    uint32_t id = 0; for (size_t i = 0; i < il; i++) id = id << 8 | p[ih + i];
    unsigned char op = p[ih + il];
    if (op == 0x64) { entries++; c->entries++; }
    else if (op != 0x73) {
      size_t bl, bh = hdr(p + ih + il, len - ih - il, &bl); const unsigned char *q = p + ih + il + bh;
      if (id == 0) { fprintf(stderr, "the server said good-bye, result code %d\n", q[0] == 10 ? q[2] : -1); exit(1); }
      finish(c, li, id, q[0] == 10 ? q[2] : -1);
      request(li, id % depth);
    }
    at += h + len;
  }
  memmove(c->in, c->in + at, c->have - at); c->have -= at;
  flush(&cs[li]); if (mode == MIXED) flush(&cs[conns + li]);
}

#include "sessions.h"

/* Each of the two returns how many seconds requests were made. */
static double runrequests(int port, double secs) {
  slots = calloc((size_t)conns * depth, sizeof *slots); lanes = calloc(conns, sizeof *lanes);
  int sockets = mode == MIXED ? 2 * conns : conns;
  int ep = epoll_create1(0); cs = calloc(sockets, sizeof *cs);
  for (int i = 0; i < sockets; i++) {
    dial(&cs[i], port, *binddn && i < conns);
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = i}; epoll_ctl(ep, EPOLL_CTL_ADD, cs[i].fd, &e);
  }
  double t0 = now();
  for (int i = 0; i < conns; i++) { lanes[i].turn = i * 11; for (int k = 0; k < depth; k++) request(i, k); }
  for (int i = 0; i < sockets; i++) flush(&cs[i]);
  struct epoll_event ev[64];
  while (now() - t0 < secs) {
    int n = epoll_wait(ep, ev, 64, 100);
    for (int k = 0; k < n; k++) receive(ev[k].data.u32);
  }
  return now() - t0;
}

static int bytime(const void *a, const void *b) { double x = *(double *)a, y = *(double *)b; return x < y ? -1 : x > y; }

static enum mode modenamed(const char *name) {
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) if (!strcmp(name, modes[i])) return i;
  fprintf(stderr, "unknown mode %s\n", name); exit(2);
}

int main(int argc, char **argv) {
  int port = 389; double secs = 5; int o;
  while ((o = getopt(argc, argv, "p:c:d:t:m:n:b:f:v:w:D:W:s:l:e:a:r:o:x:j")) != -1) switch (o) {
    case 'p': port = atoi(optarg); break; case 'c': conns = atoi(optarg); break; case 'd': depth = atoi(optarg); break;
    case 't': secs = atof(optarg); break; case 'n': users = atoi(optarg); break; case 'l': lowest = atoi(optarg); break;
    case 'b': snprintf(base, sizeof base, "%s", optarg); break; case 'f': snprintf(dnfmt, sizeof dnfmt, "%s", optarg); break;
    case 'v': snprintf(valfmt, sizeof valfmt, "%s", optarg); break; case 'w': snprintf(pwfmt, sizeof pwfmt, "%s", optarg); break;
    case 'D': snprintf(binddn, sizeof binddn, "%s", optarg); break; case 'W': snprintf(bindpw, sizeof bindpw, "%s", optarg); break;
    case 's': nextadd = atoi(optarg); break; case 'e': wantentries = atoi(optarg); break; case 'j': json = 1; break;
    case 'a': snprintf(attribute, sizeof attribute, "%s", optarg); break;
    case 'o': snprintf(term, sizeof term, "%s", optarg); break;
    case 'r': snprintf(requested, sizeof requested, "%s", optarg); break;
    case 'm': mode = modenamed(optarg); break;
    case 'x': layer = strcmp(optarg, "resumed") ? NEW : RESUMED; break;
    default: fprintf(stderr, "usage: see the head of ldapload.c\n"); return 2; }
  if (conns < 1 || depth < 1 || depth > 4096 || users <= lowest) { fprintf(stderr, "CONNECTIONS, DEPTH or USERS out of range\n"); return 2; }
  if (!strchr(term, '=')) { fprintf(stderr, "-o needs ATTRIBUTE=VALUE\n"); return 2; }
  lat = malloc(caplat * sizeof *lat);
  double dt = mode == SESSIONS ? runsessions(port, secs) : runrequests(port, secs);
  qsort(lat, nlat, sizeof *lat, bytime);
  struct timespec cpu; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  double p50 = nlat ? lat[nlat / 2] * 1e3 : 0, p99 = nlat ? lat[(size_t)(nlat * .99)] * 1e3 : 0, max = nlat ? lat[nlat - 1] * 1e3 : 0;
  double cpuload = (cpu.tv_sec + cpu.tv_nsec / 1e9) / dt * 100;
  if (json) printf("{\"ops\":%.0f,\"errors\":%llu,\"entries\":%.0f,\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.1f,\"load_cpu\":%.0f,\"resumed\":%.3f}\n",
    done / dt, (unsigned long long)errors, entries / dt, p50, p99, max, cpuload, done ? (double)resumed / done : 0);
  else printf("ops/s %.0f  errors %llu%s  entries/s %.0f  p50 %.3f ms  p99 %.3f ms  max %.1f ms  load-cpu %.0f%%  resumed %.3f\n", done / dt,
    (unsigned long long)errors, lasterr == -2 ? " (wrong entry count)" : "", entries / dt, p50, p99, max, cpuload, done ? (double)resumed / done : 0);
  if (errors) fprintf(stderr, "last failing result code %d\n", lasterr);
  return errors != 0;
}
