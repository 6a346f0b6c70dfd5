import type { Certificate, CertificatePut, CertificatesPost } from '@keelson/api';
import { errors, isKeelsonError, type KeelsonError } from '../../core/errors.ts';
import type { Precondition } from '../../core/precondition.ts';
import { JsonCache, type RecordList } from '../../core/record-list.ts';
import type { Collection, Entry } from '../../state/collection.ts';
import type { CertificateRecord } from '../../state/records/certificate.ts';
import type { Events } from '../events/contract.ts';
import type { Operations, StartedOperation } from '../operations/contract.ts';
import { FailedAttempts } from './attempts.ts';
import { isAdmin, type Caller } from './caller.ts';
import type { Certificates, TrustSettings } from './contract.ts';
import { JoinTokens, type Grant } from './join-tokens.ts';
import { changeRecord, maySee, typeOf } from './rights.ts';
import { parseCertificate, type ParsedCertificate } from './x509.ts';

const FINGERPRINT_LENGTH = 64;

export interface CertificateServiceOptions {
  readonly certificates: Collection<CertificateRecord>;
  readonly operations: Operations;
  readonly events: Events;
  readonly settings: TrustSettings;
  readonly projectExists: (name: string) => boolean;
  readonly now: () => number;
}

/** Which client certificates may use the API, and for what. */
export class CertificateService implements Certificates {
  readonly #options: CertificateServiceOptions;
  readonly #records: Collection<CertificateRecord>;
  readonly #tokens: JoinTokens;
  readonly #attempts: FailedAttempts;
  readonly #texts = new JsonCache<Certificate>();

  constructor(options: CertificateServiceOptions) {
    this.#options = options;
    this.#records = options.certificates;
    this.#tokens = new JoinTokens(options.operations, options.settings);
    this.#attempts = new FailedAttempts(options.now);
  }

  list(caller: Caller): RecordList {
    const shown = this.#records.list().filter(({ value }) => maySee(caller, value.fingerprint));
    const rendered = shown.map((entry) =>
      this.#texts.get(entry.value.fingerprint, entry.revision, () => recordOf(entry)),
    );
    return {
      version: `${isAdmin(caller) ? '*' : caller.fingerprint}:${this.#records.revision}`,
      urls: () => shown.map(({ value }) => urlOf(value.fingerprint)),
      json: () => rendered.map(({ text }) => text),
      values: () => rendered.map(({ value }) => value),
    };
  }

  get(caller: Caller, fingerprint: string): { certificate: Certificate; etag: readonly unknown[] } {
    const entry = this.#find(caller, fingerprint);
    return { certificate: recordOf(entry), etag: etagSource(entry.value) };
  }

  async create(caller: Caller, body: CertificatesPost): Promise<string | StartedOperation> {
    const type = typeOf(body.type);
    if (!isAdmin(caller)) return this.#addOwn(caller, body);
    this.#checkProjects(body.projects ?? []);
    if (body.token === true) return this.#issueToken(body);
    const { certificate = '' } = body;
    if (certificate === '') throw errors.badRequest('Client is already trusted');
    const { name = '', restricted = false, projects = [] } = body;
    return this.#add(caller, parseCertificate(certificate), { name, type, restricted, projects });
  }

  async put(caller: Caller, fingerprint: string, body: CertificatePut, precondition: Precondition): Promise<void> {
    const { name = '', type = 'client', restricted = false, projects = [], certificate } = body;
    await this.#change(caller, fingerprint, precondition, (current) => ({
      ...changeRecord(caller, current, { name, type, restricted, projects }),
      certificate,
    }));
  }

  async patch(caller: Caller, fingerprint: string, body: CertificatePut, precondition: Precondition): Promise<void> {
    await this.#change(caller, fingerprint, precondition, (current) => ({
      ...changeRecord(caller, current, {
        name: body.name ?? current.name,
        type: body.type ?? current.type,
        restricted: body.restricted ?? current.restricted,
        projects: body.projects ?? [...current.projects],
      }),
      certificate: body.certificate,
    }));
  }

  async delete(caller: Caller, fingerprint: string): Promise<void> {
    const { value } = this.#find(caller, fingerprint);
    if (!(await this.#records.delete(value.fingerprint))) throw notFound();
    this.#announce('certificate-deleted', value.fingerprint, caller);
  }

  /** An untrusted caller, by password or token: its own certificate only, whatever else the body says. */
  async #addOwn(caller: Caller, body: CertificatesPost): Promise<string> {
    if (caller.kind !== 'untrusted' || body.token === true) throw errors.unauthorized('not authorized');
    const { address } = caller.requestor;
    const host = address.slice(0, address.lastIndexOf(':'));
    this.#attempts.check(host);
    if (caller.certificate === undefined) throw errors.badRequest('No client certificate provided');
    const attempt = this.#attempts.begin(host);
    const grant = await this.#grantFor(body);
    if (grant === undefined) throw errors.unauthorized('not authorized');
    attempt.succeeded();
    const { name = '', restricted = false, projects = [] } = grant;
    return this.#add(caller, parseCertificate(caller.certificate), {
      name,
      type: typeOf(grant.type),
      restricted,
      projects,
    });
  }

  /** The trust password lets in without restriction, as LXD does; a token as its issuer decided. */
  async #grantFor(body: CertificatesPost): Promise<Grant | undefined> {
    const { password = '' } = body;
    if (password === '') return undefined;
    const invited = await this.#tokens.redeem(password);
    if (invited !== undefined) return invited;
    if (!(await this.#options.settings.passwordMatches(password))) return undefined;
    return { name: body.name ?? '', type: 'client' };
  }

  #issueToken(body: CertificatesPost): StartedOperation {
    if (this.#options.settings.addresses().length === 0) {
      throw errors.badRequest("Can't issue token when server isn't listening on network");
    }
    return this.#tokens.issue(body);
  }

  async #add(
    caller: Caller,
    { fingerprint, pem, commonName, notAfter }: ParsedCertificate,
    rights: Pick<CertificateRecord, 'name' | 'type' | 'restricted' | 'projects'>,
  ): Promise<string> {
    if (notAfter < this.#options.now()) throw errors.badRequest('Certificate has expired');
    const name = rights.name === '' ? commonName : rights.name;
    try {
      await this.#records.create(fingerprint, { ...rights, name, fingerprint, certificate: pem });
    } catch (error) {
      if (isKeelsonError(error, 'conflict')) throw errors.conflict('Certificate already in trust store', error);
      throw error;
    }
    this.#announce('certificate-created', fingerprint, caller);
    return urlOf(fingerprint);
  }

  async #change(
    caller: Caller,
    fingerprint: string,
    precondition: Precondition,
    change: (
      current: CertificateRecord,
    ) => Omit<CertificateRecord, 'certificate' | 'fingerprint'> & { certificate: string | undefined },
  ): Promise<void> {
    const { value } = this.#find(caller, fingerprint);
    const { certificate } = change(value);
    if (
      certificate !== undefined &&
      certificate !== '' &&
      parseCertificate(certificate).fingerprint !== value.fingerprint
    ) {
      throw errors.badRequest(
        'A certificate cannot be replaced by another one: add the new one, then delete the old one',
      );
    }
    await this.#records.update(value.fingerprint, (current) => {
      precondition(etagSource(current));
      const { name, type, restricted, projects } = change(current);
      this.#checkProjects(projects);
      return { ...current, name, type, restricted, projects };
    });
    this.#announce('certificate-updated', value.fingerprint, caller);
  }

  #find(caller: Caller, fingerprint: string): Entry<CertificateRecord> {
    const wanted = fingerprint.toLowerCase();
    const found =
      wanted.length === FINGERPRINT_LENGTH
        ? [this.#records.get(wanted)]
        : this.#records.list().filter(({ value }) => value.fingerprint.startsWith(wanted));
    const visible = found.filter((entry) => entry !== undefined && maySee(caller, entry.value.fingerprint));
    if (visible.length > 1) throw errors.badRequest('More than one certificate matches');
    const [entry] = visible;
    if (entry === undefined) throw notFound();
    return entry;
  }

  #checkProjects(projects: readonly string[]): void {
    if (!projects.every((project) => this.#options.projectExists(project))) throw errors.notFound('Project not found');
  }

  #announce(action: string, fingerprint: string, { requestor }: Caller): void {
    this.#options.events.lifecycle('default', { action, source: urlOf(fingerprint), requestor });
  }
}

function recordOf({ value }: Entry<CertificateRecord>): Certificate {
  const { name, type, restricted, projects, certificate, fingerprint } = value;
  return { name, type, restricted, projects: [...projects], certificate, fingerprint };
}

function etagSource({ name, type, restricted, projects, certificate }: CertificateRecord): readonly unknown[] {
  return [name, type, restricted, projects, certificate];
}

function urlOf(fingerprint: string): string {
  return `/1.0/certificates/${fingerprint}`;
}

function notFound(): KeelsonError {
  return errors.notFound('Certificate not found');
}
