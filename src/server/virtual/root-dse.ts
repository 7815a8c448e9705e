import type { DirectorySettings } from '../../partition/types.js';
import { FeatureOid } from '../../protocol/oids.js';
import { SUPPORTED_CONTROLS } from '../controls.js';
import { SUBSCHEMA_DN } from '../entry/computed.js';
import { supportedExtensions } from '../operations/extended/extended.js';
import type { Config } from '../settings/index.js';
import { VENDOR, VERSION } from '../version.js';
import type { VirtualAttributes } from './virtual-entries.js';

/** The root DSE (RFC 4512 §5.1, RFC 3045). */
export function rootDseAttributes(settings: DirectorySettings, config: Config): VirtualAttributes {
  return [
    ['objectClass', ['top']],
    ['namingContexts', settings.suffixes],
    ['supportedLDAPVersion', ['3']],
    ['supportedControl', SUPPORTED_CONTROLS],
    ['supportedExtension', supportedExtensions(config)],
    ['supportedFeatures', Object.values(FeatureOid)],
    ['subschemaSubentry', [SUBSCHEMA_DN]],
    ['monitorContext', ['cn=Monitor']],
    ['vendorName', [VENDOR]],
    ['vendorVersion', [VERSION]],
    ['entryDN', ['']],
    ['structuralObjectClass', ['top']],
    ['hasSubordinates', ['TRUE']],
  ];
}
